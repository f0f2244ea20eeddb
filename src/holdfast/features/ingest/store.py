"""Storage of ingested documents and the decisions about their segments; local to this store."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import EVERYTHING
from holdfast.kernel.caller import Caller
from holdfast.kernel.storage.port import Session


class Taken(NamedTuple):
    """An ingested document."""

    id: str
    namespace: str
    source_uri: str
    content_hash: str
    pipeline: str
    pipeline_version: str
    agent: str
    document: str | None
    """The memory that represents it."""
    stages: list[dict[str, Any]]
    ingested_at: int


class Outcome(NamedTuple):
    """The decision about a segment."""

    place: int
    digest: str
    decision: str
    memory: str | None
    """The memory that holds its text: its own, or one with the same text."""
    other: str | None
    """The similar memory."""
    replaces: int
    """1 if it supersedes the other."""
    kind: str
    line: int
    begins: int
    ends: int
    reason: str
    method: str
    model: str | None


class Kept(NamedTuple):
    """Title and liveness of a memory that the caller may see."""

    title: str
    live: bool


def get(session: Session, id: str) -> Taken | None:
    row = session.row("ingest_get", id=id)
    return _taken(row) if row else None


def before(session: Session, source_uri: str, namespace: str, agent: str, *, limit: int) -> list[Taken]:
    """List an agent's ingests of a source, newest first."""
    rows = session.rows("ingest_before", source_uri=source_uri, namespace=namespace, agent=agent, limit=limit)
    return [_taken(row) for row in rows]


def _taken(row: Sequence[Any]) -> Taken:
    return Taken._make((*row[:8], msgspec.json.decode(row[8]), row[9]))


def outcomes(session: Session, id: str) -> list[Outcome]:
    return [Outcome(*row) for row in session.rows("ingest_segments", ingest=id)]


def put(session: Session, taken: Taken, found: Iterable[Outcome]) -> None:
    """Store a document and its segments, replacing an earlier record with the same id."""
    session.do("ingest_segments_forget", ingest=taken.id)
    session.do("ingest_forget", id=taken.id)
    session.do("ingest_put", **{**taken._asdict(), "stages": msgspec.json.encode(taken.stages).decode()})
    session.many("ingest_segment_put", ({"ingest": taken.id, **one._asdict()} for one in found))


def kept(session: Session, caller: Caller, ids: Sequence[str], now: int) -> dict[str, Kept]:
    """Return the status of those memories that the caller may see."""
    parts, params = memories.narrowed(caller, EVERYTHING, now, "any")
    rows = session.assembled(("ingest_states", *parts, "memory.some"), params | {"ids": list(ids)}) if ids else []
    return {id: Kept(title, state == "live" and lives_until > now) for id, title, state, lives_until in rows}


def purge(session: Session, ids: Sequence[str]) -> None:
    """Erase reasons, digests and model answers about purged memories."""
    session.do("ingest_purged", ids=list(ids))
    session.do("ingest_segment_purged", ids=list(ids))
