"""Erase the content of a record: in the journal, in changes for peers and in tables of features."""

from collections.abc import Callable, Mapping

from holdfast.kernel.storage.port import Session

Redaction = Callable[[Session, str, str, Mapping[str, int]], None]
"""Erases a feature's data of a purged record, given its kind, its id and the seen time by origin."""

REDACTIONS: list[Redaction] = []
CLEANERS: list[Callable[[Session], None]] = []


def on_redact(redaction: Redaction) -> None:
    """Register a function to call for each purged record."""
    REDACTIONS.append(redaction)


def on_clear_derived(cleaner: Callable[[Session], None]) -> None:
    """Register a function to call when text was purged that other text may quote."""
    CLEANERS.append(cleaner)


def clear_derived_text(session: Session) -> None:
    """Delete all text that may quote purged text, and every trace of purged text in the index."""
    for cleaner in CLEANERS:
        cleaner(session)
    session.purge_index()


def redact_record(session: Session, kind: str, record: str, seen: Mapping[str, int]) -> None:
    """Erase the content of every change of a record that the purge had seen."""
    for origin, at in seen.items():
        session.do("record_redact", id=record, kind=kind, origin=origin, at=at)
        session.do("remote_change_redact_record", id=record, kind=kind, origin=origin, at=at)
    session.do("compacted_record_purge", id=record, kind=kind)
    for redaction in REDACTIONS:
        redaction(session, kind, record, seen)
