"""Score the relevance of reflections to a query by keywords and embeddings.

Unlike recall it ignores neighbours, authors and times: for reflections they say little and take most of recall's time.
"""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.features.embeddings import store as vectors
from holdfast.features.memories.store import Filter
from holdfast.features.recall import fts_query as asking
from holdfast.features.recall.prefetch import Ahead
from holdfast.features.recall.query import question
from holdfast.features.recall.ranking import RELATED, SPAN, UNRELATED
from holdfast.features.recall.service import LONGEST_QUESTION, NO_VECTORS, UNREADABLE
from holdfast.features.skills import reflection_store as skill_reflections
from holdfast.features.skills.reflection_store import Within
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import EmbedderFailed
from holdfast.kernel.vector import Embedding

MOST_FOUND = 100
"""Keyword hits per namespace."""
MOST_NEAR = 50
"""Embedding hits per namespace."""


class Found(NamedTuple):
    """Scores by reflection id, relative to the best one."""

    worth: dict[str, float]
    degraded: str | None = None


def relevant(hold: Hold, places: Sequence[Within], query: str) -> Found:
    """Score the reflections that share a word with the query or are near it in meaning."""
    words, text = question(query, hold.now()).words, query[:LONGEST_QUESTION]
    if not words:
        return Found({})
    with Ahead() as ahead:
        if hold.embedder is not None:
            ahead.begin(hold.embedder, text)
        found = _by_words(hold, places, words)
        if hold.embedder is None:
            return Found(found)
        try:
            vector = ahead.vector(hold.embedder, text)
        except EmbedderFailed as error:
            return Found(found, f"Keyword search only. {error.message}")
    if vector is None:
        return Found(found, UNREADABLE)
    near = _by_meaning(hold, places, Embedding(hold.embedder.model, vector))
    if near is None:
        return Found(found, NO_VECTORS)
    return Found(_shares({id: found.get(id, 0.0) + near.get(id, 0.0) for id in found.keys() | near.keys()}))


def _by_words(hold: Hold, places: Sequence[Within], words: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    with hold.reading() as session:
        asked = asking.question(session, words)
        for place in places:
            which = Filter(under=place.namespace, kinds=("reflection",))
            hits = asking.candidates(session, hold.caller, asked, which, hold.now(), limit=MOST_FOUND)
            found |= {hit.id: hit.score for hit in hits}
    return _shares(found)


def _by_meaning(hold: Hold, places: Sequence[Within], asked: Embedding) -> dict[str, float] | None:
    """Score by cosine relative to the nearest one; None if the store has no embeddings of this model."""
    near: dict[str, float] = {}
    with hold.reading() as session:
        if vectors.dim_of(session, asked.model) != asked.vector.dim:
            return None
        for place in places:
            near |= skill_reflections.nearest(session, hold.caller, place, asked, hold.now(), limit=MOST_NEAR)
    span = max(SPAN, max(near.values(), default=0.0) - UNRELATED)
    return {id: (cosine - UNRELATED) / span for id, cosine in near.items() if cosine >= RELATED} if near else None


def _shares(scores: dict[str, float]) -> dict[str, float]:
    """Divide every score by the best one."""
    most = max(scores.values(), default=0.0)
    return {id: score / most for id, score in scores.items() if score > 0}
