"""Erase what a record said: in the journal, in what is passed on to peers, and in what features keep of it."""

from collections.abc import Callable, Mapping

from holdfast.kernel.storage.port import Session

Redaction = Callable[[Session, str, str, Mapping[str, int]], None]
"""Erases what a feature keeps of a purged record: by its kind, its id, and up to which stamp by origin."""

REDACTIONS: list[Redaction] = []


def on_redact(redaction: Redaction) -> None:
    """Call this whenever a record is purged."""
    REDACTIONS.append(redaction)


def erase(session: Session, kind: str, record: str, seen: Mapping[str, int]) -> None:
    """Erase what a record said in every change that whoever purged it had seen."""
    for origin, at in seen.items():
        session.do("record_purged", id=record, kind=kind, origin=origin, at=at)
        session.do("relayed_purged", id=record, kind=kind, origin=origin, at=at)
    session.do("folded_purged", id=record, kind=kind)
    for redaction in REDACTIONS:
        redaction(session, kind, record, seen)
