"""Erase the content of a record: in the journal, in changes for peers and in tables of features."""

from collections.abc import Callable, Mapping

from holdfast.kernel.storage.port import Session

Redaction = Callable[[Session, str, str, Mapping[str, int]], None]
"""Erases a feature's data of a purged record, given its kind, its id and the seen time by origin."""

REDACTIONS: list[Redaction] = []


def on_redact(redaction: Redaction) -> None:
    """Register a function to call for each purged record."""
    REDACTIONS.append(redaction)


def redact_record(session: Session, kind: str, record: str, seen: Mapping[str, int]) -> None:
    """Erase the content of every change of a record that the purge had seen."""
    for origin, at in seen.items():
        session.do("record_redact", id=record, kind=kind, origin=origin, at=at)
        session.do("remote_change_redact_record", id=record, kind=kind, origin=origin, at=at)
    session.do("compacted_record_purge", id=record, kind=kind)
    for redaction in REDACTIONS:
        redaction(session, kind, record, seen)
