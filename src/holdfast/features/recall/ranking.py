"""Rank candidates by their features.

A score is the weighted sum of the features. Priority, confidence, age and use only adjust the sum. Everything here is a
pure function of the candidates: the same candidates always get the same order.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from math import log
from operator import mul
from typing import NamedTuple

from holdfast.features.recall.features import Candidate, Features, FeatureTable, Passage, Scope
from holdfast.kernel.timestamps import DAY


class Weights(NamedTuple):
    """Weight of each feature. Fitted by tools/fit_weights.py, then rounded: halving any one of them changes little."""

    words: float = 0.5
    vector: float = 0.6
    speaker: float = 0.2
    before: float = 0.2
    long_before: float = 0.1
    after: float = 0.1
    answers: float = 0.1
    thread_words: float = 0.4
    thread_vector: float = 0.2
    asks: float = -0.12
    date: float = 0.5
    linked: float = 0.1


WEIGHTS = Weights()

EXACT_LEAD = 0.1
"""Minimum share of its lead that an exact match without an embedding keeps over memories with one."""

PRIORITY_WEIGHT = 0.05
CONFIDENCE_WEIGHT = 0.10
RECENCY_WEIGHT = 0.03
RECENCY_HALF_DAYS = 30
USE_WEIGHT = 0.02
MAX_USES = 50
_LOG_MAX_USES = log(1 + MAX_USES)
UTILITY_WEIGHT = 0.15
OVER_FACTOR = 0.7
"""For memories that are superseded or past `valid_until`."""


def weighted_sum(parts: Sequence[float], weights: Weights) -> float:
    return float(sum(map(mul, parts, weights)))


class Adjustments(NamedTuple):
    """What each adjustment adds to a factor of 1; `over` is a separate factor."""

    priority: float
    confidence: float
    recency: float
    use: float
    feedback: float
    over: float

    def compute_factor(self) -> float:
        return _compute_factor(self)


class RankedMemory(NamedTuple):
    """A ranked candidate with the explanation of its score."""

    id: str
    score: float
    """The adjusted weighted sum."""
    features: Features
    adjustments: Adjustments
    bm25: float
    cosine: float | None
    """Of its nearest passage, unscaled."""
    terms: tuple[str, ...]
    """The query stems it contains."""
    passage: Passage | None
    """The passage that matches best."""


Ranking = list[RankedMemory]
"""Best first."""


def rank_features(features: FeatureTable, now: int, *, limit: int | None = None, weights: Weights = WEIGHTS) -> Ranking:
    """Rank the candidates by their features, best first; newer first among equals."""
    adjustments = {one.id: compute_adjustments(one, now) for one in features.candidates}
    values = _raise_all_exact(features, {id: _compute_factor(adjusted) for id, adjusted in adjustments.items()})
    scored = []
    for one in features.candidates:
        parts, adjusted = values[one.id], adjustments[one.id]
        scored.append(
            (-weighted_sum(parts, weights) * _compute_factor(adjusted), -one.updated_at, one.id, parts, adjusted, one)
        )
    scored.sort()
    return [
        _build_entry(features, one, -score, Features(*parts), Adjustments(*adjusted))
        for score, _, _, parts, adjusted, one in scored[:limit]
    ]


def rank_candidates(
    candidates: Sequence[Candidate],
    neighbours: Sequence[Candidate],
    stems: Sequence[str],
    scope: Scope,
    now: int,
    *,
    limit: int | None = None,
    weights: Weights = WEIGHTS,
) -> Ranking:
    """Compute the features of candidates and rank them. `neighbours` are not candidates themselves."""
    return rank_features(FeatureTable(candidates, neighbours, stems, scope), now, limit=limit, weights=weights)


def _build_entry(
    features: FeatureTable, one: Candidate, score: float, parts: Features, adjusted: Adjustments
) -> RankedMemory:
    return RankedMemory(
        id=one.id,
        score=score,
        features=parts,
        adjustments=adjusted,
        bm25=features.bm25[one.id],
        cosine=max((piece.cosine for piece in one.pieces if piece.cosine is not None), default=None),
        terms=features.find_terms(one),
        passage=features.find_best_passage(one),
    )


def _raise_all_exact(features: FeatureTable, factors: Mapping[str, float]) -> dict[str, tuple[float, ...]]:
    """Return the features, with those of exact matches without an embedding raised. `factors` multiply the sums."""
    if not features.estimated:
        return features.values
    exact = features.find_exact()
    lacking = exact & features.estimated.keys()
    if not lacking:
        return features.values
    return features.values | _raise_exact(features.values, factors, exact, lacking, threads=features.has_threads())


def _raise_exact(
    features: Mapping[str, tuple[float, ...]],
    factors: Mapping[str, float],
    exact: Collection[str],
    estimated: Collection[str],
    *,
    threads: bool,
) -> dict[str, tuple[float, ...]]:
    """Raise the estimates of exact matches without an embedding, so that none falls behind a candidate that it precedes
    by all other features: embeddings of others never move an exact match down."""
    sums = {id: weighted_sum(one, WEIGHTS) for id, one in features.items()}
    rest = {id: (sums[id] - _sum_of_vectors(one)) * factors[id] for id, one in features.items()}
    others = sorted((rest[id], sums[id] * factors[id]) for id in features if id not in exact)
    behind = [value for value, _ in others]
    highest = list(accumulate((score - EXACT_LEAD * value for value, score in others), max))
    raised = {}
    for id in estimated:
        if at := bisect_left(behind, rest[id]):
            missing = (highest[at - 1] + EXACT_LEAD * rest[id]) / factors[id] - sums[id]
            if missing > 0:
                raised[id] = _raise_vectors(features[id], missing, threads=threads)
    return raised


_VECTOR, _THREAD_VECTOR = Features._fields.index("vector"), Features._fields.index("thread_vector")


def _sum_of_vectors(features: Sequence[float]) -> float:
    return features[_VECTOR] * WEIGHTS.vector + features[_THREAD_VECTOR] * WEIGHTS.thread_vector


def _raise_vectors(features: tuple[float, ...], missing: float, *, threads: bool) -> tuple[float, ...]:
    """Raise the vector features until the weighted sum grows by `missing`; no feature exceeds 1."""
    found = list(features)
    for place in (_VECTOR, _THREAD_VECTOR) if threads else (_VECTOR,):
        before = found[place]
        found[place] = min(1.0, before + max(0.0, missing) / WEIGHTS[place])
        missing -= (found[place] - before) * WEIGHTS[place]
    return tuple(found)


def compute_adjustments(one: Candidate, now: int) -> tuple[float, ...]:
    """Compute the adjustments as a plain tuple in field order; all are small."""
    age_days = max(0, now - one.updated_at) / DAY
    return (
        PRIORITY_WEIGHT * (one.priority - 5) / 5,
        -CONFIDENCE_WEIGHT * (1.0 - one.confidence),
        RECENCY_WEIGHT * (RECENCY_HALF_DAYS / (RECENCY_HALF_DAYS + age_days) - 1.0),
        USE_WEIGHT * min(1.0, log(1 + one.uses) / _LOG_MAX_USES),
        UTILITY_WEIGHT * one.utility,
        OVER_FACTOR if one.over else 1.0,
    )


def _compute_factor(adjusted: Sequence[float]) -> float:
    priority, confidence, recency, use, feedback, over = adjusted
    return (1.0 + priority + confidence + recency + use + feedback) * over
