"""Score the relevance of reflections to a query by keywords and embeddings.

Unlike recall it ignores neighbours, authors and times: for reflections they say little and take most of recall's time.
"""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.features.embeddings import store as embedding_store
from holdfast.features.memories.store import Filter
from holdfast.features.recall import search_index
from holdfast.features.recall.features import RELATED, SPAN, UNRELATED
from holdfast.features.recall.lexical_hits import MAX_QUERY_CHARACTERS, NO_EMBEDDINGS, UNKNOWN_WORDS
from holdfast.features.recall.query import QueryEmbedding, parse_query
from holdfast.features.skills import reflection_store
from holdfast.features.skills.reflection_store import ReflectionScope
from holdfast.kernel.context import Context
from holdfast.kernel.errors import EmbedderFailed
from holdfast.kernel.vector import Embedding

MAX_WORD_HITS = 100
"""Keyword hits per namespace."""
MAX_NEAREST = 50
"""Embedding hits per namespace."""


class Relevance(NamedTuple):
    """Scores by reflection id, relative to the best one."""

    scores: dict[str, float]
    degraded: str | None = None


def score_relevance(ctx: Context, places: Sequence[ReflectionScope], query: str) -> Relevance:
    """Score the reflections that share a word with the query or are near it in meaning."""
    words, text = parse_query(query, ctx.now()).words, query[:MAX_QUERY_CHARACTERS]
    if not words:
        return Relevance({})
    with QueryEmbedding() as ahead:
        if ctx.embedder is not None:
            ahead.start(ctx.embedder, text)
        found = _score_by_words(ctx, places, words)
        if ctx.embedder is None:
            return Relevance(found)
        try:
            vector = ahead.get_vector(ctx.embedder, text)
        except EmbedderFailed as error:
            return Relevance(found, f"Keyword search only. {error.message}")
    if vector is None:
        return Relevance(found, UNKNOWN_WORDS)
    near = _score_by_embedding(ctx, places, Embedding(ctx.embedder.model, vector))
    if near is None:
        return Relevance(found, NO_EMBEDDINGS)
    return Relevance(_normalise({id: found.get(id, 0.0) + near.get(id, 0.0) for id in found.keys() | near.keys()}))


def _score_by_words(ctx: Context, places: Sequence[ReflectionScope], words: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    with ctx.reading() as session:
        asked = search_index.plan_query(session, words)
        for place in places:
            which = Filter(under=place.namespace, kinds=("reflection",))
            hits = search_index.find_matches(session, ctx.caller, asked, which, ctx.now(), limit=MAX_WORD_HITS)
            found |= {hit.id: hit.score for hit in hits}
    return _normalise(found)


def _score_by_embedding(
    ctx: Context, places: Sequence[ReflectionScope], embedding: Embedding
) -> dict[str, float] | None:
    """Score by cosine relative to the nearest one; None if the store has no embeddings of this model."""
    near: dict[str, float] = {}
    with ctx.reading() as session:
        if embedding_store.get_dimension(session, embedding.model) != embedding.vector.dim:
            return None
        for place in places:
            near |= reflection_store.find_nearest(session, ctx.caller, place, embedding, ctx.now(), limit=MAX_NEAREST)
    span = max(SPAN, max(near.values(), default=0.0) - UNRELATED)
    return {id: (cosine - UNRELATED) / span for id, cosine in near.items() if cosine >= RELATED} if near else None


def _normalise(scores: dict[str, float]) -> dict[str, float]:
    """Divide every score by the best one."""
    most = max(scores.values(), default=0.0)
    return {id: score / most for id, score in scores.items() if score > 0}
