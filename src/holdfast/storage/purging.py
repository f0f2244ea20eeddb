"""Erasing what was said: out of the journal, out of what is passed on, and out of what finds it."""

from collections.abc import Mapping

from . import curation, ingests, quarantine, recalls, vectors
from .port import Session


def erase(session: Session, kind: str, record: str, seen: Mapping[str, int]) -> None:
    """Take away what a record said in every change that whoever purged it had seen."""
    for origin, at in seen.items():
        session.do("record_purged", id=record, kind=kind, origin=origin, at=at)
        session.do("relayed_purged", id=record, kind=kind, origin=origin, at=at)
    session.do("folded_purged", id=record, kind=kind)
    quarantine.purge(session, kind, record, seen)
    if kind == "memory":
        session.do("memory_access_purged", id=record)
        session.do("restated_purged", id=record)
        vectors.drop(session, record)
        for kept in (recalls, curation, ingests):
            kept.purge(session, [record])
