"""Where a reflection was first made, and how deep it was there and when it came here."""

from typing import NamedTuple

from ..domain.memory import Memory
from ..domain.reflection import origin_of
from ..storage import journal, memories, records
from ..storage.port import Session
from ..storage.records import MEMORY
from .hold import Hold


class Traced(NamedTuple):
    memory: Memory
    peer_origin: str | None
    """The node that made it, unless that is this one."""
    original_depth: int
    depth_at_arrival: int | None
    """What it was when it came here from elsewhere; None for what was made here."""


def trace(hold: Hold, session: Session, id: str) -> Traced:
    """The origin of a memory, by what it says itself and by its first change here."""
    memory = memories.resolve(session, hold.caller, id, hold.now(), view="kept")
    node, first, told = journal.head_of(session).node, _first(session, memory), origin_of(memory)
    then = records.body_of(MEMORY, first).reflection_depth if first is not None and first.body is not None else None
    authors = (memory.origin, told.peer_origin if told else None)
    return Traced(
        memory,
        peer_origin=next((author for author in authors if author is not None and not made_by(node, author)), None),
        original_depth=told.original_depth if told else memory.reflection_depth if then is None else then,
        depth_at_arrival=then if first is not None and first.op == "import" else None,
    )


def made_by(node: str, origin: str) -> bool:
    """Whether an origin is one of a node's incarnations."""
    return origin.startswith(f"{node}.")


def _first(session: Session, memory: Memory) -> journal.Entry | None:
    row = session.row("journal_of", record=memory.id, kind=MEMORY.name, after=0, limit=1)
    return journal.Entry(*row) if row else None
