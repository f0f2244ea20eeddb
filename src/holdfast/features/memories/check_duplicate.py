"""Find stored duplicates of a text: exact ones by content hash, near ones by shared words."""

from typing import NamedTuple

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import EVERYTHING, Filter, normalize_filter
from holdfast.features.recall import search_index
from holdfast.kernel.context import Context
from holdfast.kernel.journal.kinds import content_hash, load_memory
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.similarity import letter_similarity
from holdfast.kernel.text.words import query_words

MAX_CANDIDATES = 50


class Nearest(NamedTuple):
    memory: Memory
    similarity: float


def find_nearest(
    ctx: Context, session: Session, title: str, content: str, namespace: str | None = None
) -> tuple[Nearest | None, int]:
    """Find the live, visible memory most similar to a text; also return how many were compared."""
    title, content = validate.title(title), validate.content(content)
    which = normalize_filter(Filter(namespace=namespace))
    same = _find_identical(ctx, session, content_hash(title, content), which.namespace)
    if same:
        return Nearest(min(same, key=lambda memory: memory.id), 1.0), len(same)
    text = f"{title}\n{content}"
    words, now = search_index.plan_query(session, query_words(text)), ctx.now()
    hits = search_index.find_matches(session, ctx.caller, words, which, now, limit=MAX_CANDIDATES)
    read = memories.by_ids(session, ctx.caller, [hit.id for hit in hits], now).values()
    found = [Nearest(one, letter_similarity(text, f"{one.title}\n{one.content}")) for one in read]
    return max(found, key=lambda one: (one.similarity, one.memory.id), default=None), len(found)


def _find_identical(ctx: Context, session: Session, hash: str, namespace: str | None) -> list[Memory]:
    """Query by hash only and filter the namespace here: otherwise the planner may scan the namespace index instead."""
    parts, params = memories.filter_clauses(ctx.caller, EVERYTHING, ctx.now())
    rows = session.select(("memory_select", *parts, "memory.with_hash"), params | {"content_hash": hash})
    return [memory for memory in map(load_memory, rows) if namespace in (None, memory.namespace)]
