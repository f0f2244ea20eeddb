"""Trace where a reflection was created, and its depth there and on arrival."""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from holdfast.features.graph.depth import read_origin
from holdfast.features.memories import read_memories as memories
from holdfast.kernel.context import Context
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.kinds import MEMORY, body_of
from holdfast.kernel.records.memory import IMPORTED_FROM, Memory
from holdfast.kernel.storage.port import Session

MAX_CHANGES = 100
"""Journal entries that are read to find the arrival."""


class Provenance(NamedTuple):
    memory: Memory
    peer_origin: str | None
    """The node that created it; None if this one."""
    original_depth: int
    depth_at_arrival: int | None
    """Depth on arrival from another store; None if created here."""
    agent: str
    """Who created it, regardless of later owners."""


def trace_provenance(ctx: Context, session: Session, id: str) -> Provenance:
    """Trace a memory's origin from its recorded origin and its first journal entries."""
    memory = memories.resolve(session, ctx.caller, id, ctx.now(), view="kept")
    node, recorded = journal.get_head(session).node, read_origin(memory)
    rows = session.rows("journal_of", record=memory.id, kind=MEMORY.name, after=0, limit=MAX_CHANGES)
    entries = [journal.Entry(*row) for row in rows]
    first_depth = _entry_depth(entries[0]) if entries else None
    authors = (memory.origin, recorded.peer_origin if recorded else None)
    return Provenance(
        memory,
        peer_origin=next((author for author in authors if author is not None and not is_made_by(node, author)), None),
        original_depth=recorded.original_depth
        if recorded
        else memory.reflection_depth
        if first_depth is None
        else first_depth,
        depth_at_arrival=_entry_depth(arrived) if (arrived := _find_arrival(node, entries)) else None,
        agent=_author(memory),
    )


def is_made_by(node: str, origin: str) -> bool:
    """Whether a replica id belongs to a node."""
    return origin.startswith(f"{node}.")


def _find_arrival(node: str, entries: Sequence[journal.Entry]) -> journal.Entry | None:
    """Find the last entry of a memory's arrival; None if it was created here."""
    if entries and entries[0].op == "import":
        return entries[0]
    arrival = takewhile(
        lambda one: not is_made_by(node, one.origin) and one.recorded_at == entries[0].recorded_at, entries
    )
    return next(reversed(list(arrival)), None)


def _entry_depth(entry: journal.Entry) -> int | None:
    return None if entry.body is None else body_of(MEMORY, entry).reflection_depth


def _author(memory: Memory) -> str:
    agent = memory.extra.get(IMPORTED_FROM) or memory.metadata.get(IMPORTED_FROM)
    return agent if isinstance(agent, str) else memory.agent
