"""How much reflections have to do with what a skill is wanted for: by their words and by what they mean.

A recall would also look at what was said around them, by whom and when. Of conclusions that says little, and costs most
of the time that a recall takes.
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
"""Reflections of a place that a query finds by its words."""
MOST_NEAR = 50
"""Those that it finds by what it means."""


class Found(NamedTuple):
    """What a query is about: a share of the best one's score for each."""

    worth: dict[str, float]
    degraded: str | None = None


def relevant(hold: Hold, places: Sequence[Within], query: str) -> Found:
    """The reflections of some places that have any word of a query, or mean something like it."""
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
            return Found(found, f"Found by words alone. {error.message}")
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
    """Shares of the nearest, or of what would be near if none is; None if there are no vectors by that model."""
    near: dict[str, float] = {}
    with hold.reading() as session:
        if vectors.dim_of(session, asked.model) != asked.vector.dim:
            return None
        for place in places:
            near |= skill_reflections.nearest(session, hold.caller, place, asked, hold.now(), limit=MOST_NEAR)
    span = max(SPAN, max(near.values(), default=0.0) - UNRELATED)
    return {id: (cosine - UNRELATED) / span for id, cosine in near.items() if cosine >= RELATED} if near else None


def _shares(scores: dict[str, float]) -> dict[str, float]:
    """Each as a share of the best."""
    most = max(scores.values(), default=0.0)
    return {id: score / most for id, score in scores.items() if score > 0}
