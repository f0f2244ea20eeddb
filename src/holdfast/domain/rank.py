"""The order of what was found: words and vectors decide; priority, confidence and age only adjust."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from .moment import DAY


class Candidate(Protocol):
    """A hit before its memory is read."""

    @property
    def id(self) -> str: ...
    @property
    def score(self) -> float: ...
    @property
    def priority(self) -> int: ...
    @property
    def confidence(self) -> float: ...
    @property
    def updated_at(self) -> int: ...


class Hit(NamedTuple):
    """A candidate with a score of both its words and its vector."""

    id: str
    score: float
    priority: int
    confidence: float
    updated_at: int


WORDS_WEIGHT = 0.5
NEARNESS_WEIGHT = 0.6
UNRELATED = 0.2
"""About the cosine of two texts that have nothing to do with each other."""
PRIORITY_WEIGHT = 0.10
CONFIDENCE_WEIGHT = 0.10
RECENCY_WEIGHT = 0.05
RECENCY_HALF_DAYS = 30


def fused(by_words: Iterable[Candidate], near: Mapping[str, Candidate]) -> list[Hit]:
    """What words or vectors found, once each: the sum of both scores, each as a share of the best.

    `near` has cosines as scores, also for what words found, as far as there are vectors. What no word found and what is
    as good as unrelated is left out.
    """
    worded = {hit.id: hit for hit in by_words}
    best = max((hit.score for hit in worded.values()), default=0.0) or 1.0
    span = max((hit.score for hit in near.values()), default=0.0) - UNRELATED
    nearness = {id: max(0.0, (hit.score - UNRELATED) / span) for id, hit in near.items()} if span > 0 else {}
    scores = {id: WORDS_WEIGHT * hit.score / best for id, hit in worded.items()}
    for id, share in nearness.items():
        if share or id in worded:
            scores[id] = scores.get(id, 0.0) + NEARNESS_WEIGHT * share
    return [_scored(worded.get(id) or near[id], score) for id, score in scores.items()]


def _scored(hit: Candidate, score: float) -> Hit:
    return Hit(hit.id, score, hit.priority, hit.confidence, hit.updated_at)


def ranked(candidates: Iterable[Candidate], now: int) -> list[tuple[str, float]]:
    """Ids with a score of at most 1, best first; of equals, the newer."""
    found = list(candidates)
    best = max((hit.score for hit in found), default=0.0) or 1.0
    scored = [(hit.id, hit.score / best * adjustment(hit, now), hit.updated_at) for hit in found]
    top = max((score for _, score, _ in scored), default=0.0) or 1.0
    scored.sort(key=lambda item: (-item[1], -item[2], item[0]))
    return [(id, round(score / max(top, 1.0), 6)) for id, score, _ in scored]


def adjustment(hit: Candidate, now: int) -> float:
    """A gentle factor between 0.77 and 1.1."""
    age_days = max(0, now - hit.updated_at) / DAY
    return (
        1.0
        + PRIORITY_WEIGHT * (hit.priority - 5) / 5
        - CONFIDENCE_WEIGHT * (1.0 - hit.confidence)
        + RECENCY_WEIGHT * (RECENCY_HALF_DAYS / (RECENCY_HALF_DAYS + age_days) - 1.0)
    )
