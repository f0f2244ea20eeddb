"""Which documents were taken in, and what became of their segments: of this store alone."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import EVERYTHING
from holdfast.kernel.caller import Caller
from holdfast.kernel.storage.port import Session


class Taken(NamedTuple):
    """A document that was taken in."""

    id: str
    namespace: str
    source_uri: str
    content_hash: str
    pipeline: str
    pipeline_version: str
    agent: str
    document: str | None
    """The memory that stands for it."""
    stages: list[dict[str, Any]]
    ingested_at: int


class Outcome(NamedTuple):
    """What became of a segment."""

    place: int
    digest: str
    decision: str
    memory: str | None
    """Where its text is kept now: its own memory, or one that says the same."""
    other: str | None
    """What it is like."""
    replaces: int
    """1, if it took the place of the other."""
    kind: str
    line: int
    begins: int
    ends: int
    reason: str
    method: str
    model: str | None


class Kept(NamedTuple):
    """What became of a memory that the caller may see."""

    title: str
    live: bool


def get(session: Session, id: str) -> Taken | None:
    row = session.row("ingest_get", id=id)
    return _taken(row) if row else None


def before(session: Session, source_uri: str, namespace: str, agent: str, *, limit: int) -> list[Taken]:
    """The times that an agent took a source in, the last one first."""
    rows = session.rows("ingest_before", source_uri=source_uri, namespace=namespace, agent=agent, limit=limit)
    return [_taken(row) for row in rows]


def _taken(row: Sequence[Any]) -> Taken:
    return Taken._make((*row[:8], msgspec.json.decode(row[8]), row[9]))


def outcomes(session: Session, id: str) -> list[Outcome]:
    return [Outcome(*row) for row in session.rows("ingest_segments", ingest=id)]


def put(session: Session, taken: Taken, found: Iterable[Outcome]) -> None:
    """Note a document and its segments, in the place of what was noted under its id."""
    session.do("ingest_segments_forget", ingest=taken.id)
    session.do("ingest_forget", id=taken.id)
    session.do("ingest_put", **{**taken._asdict(), "stages": msgspec.json.encode(taken.stages).decode()})
    session.many("ingest_segment_put", ({"ingest": taken.id, **one._asdict()} for one in found))


def kept(session: Session, caller: Caller, ids: Sequence[str], now: int) -> dict[str, Kept]:
    """What became of some memories, of those the caller may see."""
    parts, params = memories.narrowed(caller, EVERYTHING, now, "any")
    rows = session.assembled(("ingest_states", *parts, "memory.some"), params | {"ids": list(ids)}) if ids else []
    return {id: Kept(title, state == "live" and lives_until > now) for id, title, state, lives_until in rows}


def purge(session: Session, ids: Sequence[str]) -> None:
    """Forget what was said of memories that are erased."""
    session.do("ingest_purged", ids=list(ids))
    session.do("ingest_segment_purged", ids=list(ids))
