"""Find stored duplicates of a text: exact ones by content hash, near ones by shared words."""

from typing import NamedTuple

from holdfast.features.embeddings import store as embedding_store
from holdfast.features.memories import store as memories
from holdfast.features.memories.find_memories import normalize_filter
from holdfast.features.memories.store import EVERYTHING, Filter
from holdfast.features.memories.store_memory import Similar, sort_related
from holdfast.features.recall import search_index
from holdfast.kernel.context import Context
from holdfast.kernel.journal.kinds import content_hash, load_memory
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.index_terms import encode_terms, find_matches, text_hashes
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.similarity import Similarity, compare_titled
from holdfast.kernel.text.words import letter_similarity, query_words
from holdfast.kernel.vector import Embedding

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
    read = find_candidates(ctx, session, title, content, which.namespace)
    found = [Nearest(one, letter_similarity(text, f"{one.title}\n{one.content}")) for one in read]
    return max(found, key=lambda one: (one.similarity, one.memory.id), default=None), len(found)


def find_candidates(
    ctx: Context, session: Session, title: str, content: str, namespace: str | None = None
) -> list[Memory]:
    """List the visible memories that share the most distinctive words with a text."""
    which, now = normalize_filter(Filter(namespace=namespace)), ctx.now()
    words = search_index.plan_query(session, query_words(f"{title}\n{content}"))
    hits = search_index.find_matches(session, ctx.caller, words, which, now, limit=MAX_CANDIDATES)
    return list(memories.by_ids(session, ctx.caller, [hit.id for hit in hits], now).values())


def _find_identical(ctx: Context, session: Session, hash: str, namespace: str | None) -> list[Memory]:
    """Query by hash only and filter the namespace here: otherwise the planner may scan the namespace index instead."""
    parts, params = memories.filter_clauses(ctx.caller, EVERYTHING, ctx.now())
    rows = session.select(("memory_select", *parts, "memory.with_hash"), params | {"content_hash": hash})
    return [memory for memory in map(load_memory, rows) if namespace in (None, memory.namespace)]


def find_similar(
    ctx: Context,
    session: Session,
    namespace: str | None,
    title: str,
    content: str,
    limit: int = 10,
    vector: Embedding | None = None,
) -> list[tuple[Memory, Similarity]]:
    """Find memories that repeat, update or contradict a text, best first.

    Candidates come from MinHash bands, shared words and, if given, the vector. Makes no call to an embedding provider.
    """
    now = ctx.now()
    found = {one.id: one for one in find_candidates(ctx, session, title, content, namespace)}
    if namespace is not None:
        shared = find_matches(session, text_hashes(namespace, encode_terms(title, content, "[]"))).all
        found |= memories.by_ids(session, ctx.caller, shared, now)
    cosines: dict[str, float] = {}
    if vector is not None:
        clauses = memories.filter_clauses(ctx.caller, Filter(namespace=namespace), now)
        cosines = dict(embedding_store.find_nearest(session, vector, clauses, limit=limit))
        found |= memories.by_ids(session, ctx.caller, [id for id in cosines if id not in found], now)
    compared = [
        Similar(one, compare_titled(one.title, one.content, title, content, cosines.get(one.id)))
        for one in found.values()
    ]
    return [(one.memory, one.likeness) for one in sort_related(compared)[:limit]]
