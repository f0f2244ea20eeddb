"""Storage of ingested documents and the decisions about their segments; local to this store."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import EVERYTHING
from holdfast.kernel.context import Caller
from holdfast.kernel.storage.local_table import LocalTable
from holdfast.kernel.storage.port import Session


class IngestRecord(Struct, frozen=True):
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


class Outcome(Struct, frozen=True, array_like=True):
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
    ingest: str = ""


INGESTS = LocalTable(IngestRecord, "ingest", plural="ingests")
SEGMENTS = LocalTable(Outcome, "ingest_segment", ("ingest", "place"), plural="segments", parent=(INGESTS, "ingest"))


class MemoryStatus(NamedTuple):
    """Title and liveness of a memory that the caller may see."""

    title: str
    is_live: bool


def list_previous(session: Session, source_uri: str, namespace: str, agent: str, *, limit: int) -> list[IngestRecord]:
    """List an agent's ingests of a source, newest first."""
    params = {"source_uri": source_uri, "namespace": namespace, "agent": agent, "limit": limit}
    return INGESTS.select(session, ("ingest.previous",), params)


def list_outcomes(session: Session, id: str) -> list[Outcome]:
    """List the decisions about a document's segments, in order."""
    return SEGMENTS.get_many(session, [id], "ingest")


def put_record(session: Session, record: IngestRecord, outcomes: Iterable[Outcome]) -> None:
    """Store a document and its segments, replacing an earlier record with the same id."""
    INGESTS.delete(session, record.id)
    INGESTS.add(session, record)
    SEGMENTS.put_many(session, (replace(one, ingest=record.id) for one in outcomes))


def get_statuses(session: Session, caller: Caller, ids: Sequence[str], now: int) -> dict[str, MemoryStatus]:
    """Return the status of those memories that the caller may see."""
    parts, params = memories.filter_clauses(caller, EVERYTHING, now, "any")
    rows = session.select(("ingest_memory_statuses", *parts, "memory.some"), params | {"ids": list(ids)}) if ids else []
    return {id: MemoryStatus(title, state == "live" and lives_until > now) for id, title, state, lives_until in rows}


def purge_memories(session: Session, ids: Sequence[str]) -> None:
    """Erase reasons, digests and model answers about purged memories."""
    session.do("ingest_purge", ids=list(ids))
    session.do("ingest_segment_purge", ids=list(ids))
