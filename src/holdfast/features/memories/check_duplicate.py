"""Find stored duplicates of a text: exact ones by content hash, near ones by shared words."""

from typing import NamedTuple

from holdfast.features.memories import store as memories
from holdfast.features.memories.find_memories import normal
from holdfast.features.memories.store import EVERYTHING, Filter
from holdfast.features.recall import fts_query as asking
from holdfast.kernel.context import Hold
from holdfast.kernel.journal.columns import content_hash
from holdfast.kernel.journal.kinds import memory_of
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import asked, likeness

MOST_CANDIDATES = 50


class Nearest(NamedTuple):
    memory: Memory
    similarity: float


def nearest(
    hold: Hold, session: Session, title: str, content: str, namespace: str | None = None
) -> tuple[Nearest | None, int]:
    """Find the live, visible memory most similar to a text; also return how many were compared."""
    title, content = door.title(title), door.content(content)
    which = normal(Filter(namespace=namespace))
    same = _same(hold, session, content_hash(title, content), which.namespace)
    if same:
        return Nearest(min(same, key=lambda memory: memory.id), 1.0), len(same)
    text = f"{title}\n{content}"
    read = candidates(hold, session, title, content, which.namespace)
    found = [Nearest(one, likeness(text, f"{one.title}\n{one.content}")) for one in read]
    return max(found, key=lambda one: (one.similarity, one.memory.id), default=None), len(found)


def candidates(hold: Hold, session: Session, title: str, content: str, namespace: str | None = None) -> list[Memory]:
    """List the visible memories that share the most distinctive words with a text."""
    which, now = normal(Filter(namespace=namespace)), hold.now()
    words = asking.question(session, asked(f"{title}\n{content}"))
    hits = asking.candidates(session, hold.caller, words, which, now, limit=MOST_CANDIDATES)
    return list(memories.by_ids(session, hold.caller, [hit.id for hit in hits], now).values())


def _same(hold: Hold, session: Session, hash: str, namespace: str | None) -> list[Memory]:
    """Query by hash only and filter the namespace here: otherwise the planner may scan the namespace index instead."""
    parts, params = memories.narrowed(hold.caller, EVERYTHING, hold.now())
    rows = session.assembled(("memory_select", *parts, "memory.hashed"), params | {"content_hash": hash})
    return [memory for memory in map(memory_of, rows) if namespace in (None, memory.namespace)]
