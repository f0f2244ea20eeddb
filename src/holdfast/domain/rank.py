"""The order of what was found: the words decide; priority, confidence and age only adjust."""

from collections.abc import Iterable
from typing import Protocol

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


PRIORITY_WEIGHT = 0.10
CONFIDENCE_WEIGHT = 0.10
RECENCY_WEIGHT = 0.05
RECENCY_HALF_DAYS = 30


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
