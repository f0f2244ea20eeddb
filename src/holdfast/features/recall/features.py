"""Compute the features of the candidates: words, vectors, speaker, neighbours, thread, date, each of about 0 to 1.

Pure functions of the candidates: the same candidates always get the same features.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from math import log
from operator import itemgetter
from typing import NamedTuple

from msgspec import Struct

from holdfast.features.recall.dates import Event, score_event_side
from holdfast.kernel.storage.index_terms import ROLES

PRIOR_MEMORIES = 300
"""The rarity of a word in a small scope is smoothed with this many memories of the whole store."""
RARITY_POWER = 1.55
NAME_FACTOR = 0.3
"""A name counts less than an equally rare word, because the speaker is a feature of its own."""
SATURATION = 0.9
_GAIN = SATURATION + 1
LENGTH_SHARE = 0.75
SPEAKER_WORDS = 2.0
SPEAKER_COSINE = 0.2
UNRELATED = 0.2
"""The typical cosine of two unrelated texts."""
SPAN = 0.3
"""The nearest counts in full only if its cosine is at least this much above UNRELATED."""
SECOND_SHARE = 0.15
"""Share of the second nearest passage: a memory that dwells on a topic scores more than one that mentions it."""
REPLY_SHARE = 0.5
"""For a reply, the share of the embedding that includes the end of the previous message."""
OTHERS_VOICE = 0.25
"""Weight of a speaker that the query names, but not first."""
RELATED = 0.25
"""Minimum cosine of a memory that keywords did not find."""


class Passage(Struct, frozen=True, gc=False):
    """A passage: position, count of each query stem, speaker, cosine."""

    begins: int
    ends: int
    counts: Mapping[str, int]
    speaker: str | None = None
    cosine: float | None = None


class Candidate(Struct, frozen=True, gc=False):
    """The data of a candidate memory that ranking needs."""

    id: str
    pieces: Sequence[Passage]
    length: int
    """Number of stems in the whole memory."""
    labels: Mapping[str, int] = {}
    """Count of each query stem in title and tags."""
    reply: float | None = None
    """Cosine of the embedding that includes the end of the previous message."""
    speaker: str | None = None
    group: str | None = None
    """Its thread or conversation; None if it has none."""
    before: str | None = None
    long_before: str | None = None
    after: str | None = None
    asks: bool = False
    date: float = 0.0
    linked: Collection[str] = ()
    """Ids of linked candidates."""
    priority: int = 5
    confidence: float = 1.0
    updated_at: int = 0
    uses: int = 0
    utility: float = 0.0
    """From feedback: -1 to 1."""
    over: bool = False
    """Superseded, or past `valid_until`."""
    at: int = 0
    """When it happened or was stored."""


class Scope(NamedTuple):
    """Statistics of the memories that the query covers."""

    memories: int
    mean_length: float
    document_counts: Mapping[str, int]
    """Number of memories in scope that contain each query stem."""
    document_shares: Mapping[str, float]
    """Share of all memories of the store that contain each query stem."""
    names: frozenset[str] = frozenset()
    """Query stems that are names of speakers."""
    speakers: tuple[str, ...] = ()
    """Speakers that the query names, in its order."""
    events: tuple[tuple[Event, frozenset[str]], ...] = ()
    """Events that the query uses as dates, each with the stems of its name."""

    def speaker_weights(self) -> dict[str | None, float]:
        """Weigh each speaker of the query: 1 for the first named or a role, less for others."""
        first = self.speakers[:1]
        return {name: 1.0 if name in first or name.lower() in ROLES else OTHERS_VOICE for name in self.speakers}


class Features(NamedTuple):
    """The features of a candidate, before weighting."""

    words: float = 0.0
    vector: float = 0.0
    speaker: float = 0.0
    before: float = 0.0
    long_before: float = 0.0
    after: float = 0.0
    answers: float = 0.0
    thread_words: float = 0.0
    thread_vector: float = 0.0
    asks: float = 0.0
    date: float = 0.0
    linked: float = 0.0


def compute_word_weights(stems: Sequence[str], scope: Scope) -> dict[str, float]:
    """Weigh each query stem: rarer ones more, names less."""
    found = {}
    for stem in stems:
        count = scope.document_counts.get(stem, 0) + PRIOR_MEMORIES * scope.document_shares.get(stem, 0.0)
        rarity = log(1 + max(0.0, scope.memories + PRIOR_MEMORIES - count + 0.5) / (count + 0.5))
        found[stem] = rarity**RARITY_POWER * (NAME_FACTOR if stem in scope.names else 1.0)
    return found


def score_words(candidate: Candidate, weights: Mapping[str, float], usual_length: float) -> float:
    """Score the words: half for the whole text, half for the best passage; title and tags count in both."""
    pieces = candidate.pieces
    total = _add_labels(pieces[0].counts, candidate.labels) if len(pieces) == 1 else _count_all(candidate)
    if not total:
        return 0.0
    damping = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * candidate.length / (usual_length or 1.0))
    whole = _saturate(total, weights, damping)
    if len(pieces) == 1:
        part = _saturate(total, weights, SATURATION)
    else:
        part = max([score_passage_words(candidate, piece, weights) for piece in pieces], default=0.0)
    return 0.5 * whole + 0.5 * part


def _count_all(candidate: Candidate) -> Mapping[str, int]:
    """Count each query stem in a memory."""
    total = dict(candidate.labels)
    for piece in candidate.pieces:
        for stem, count in piece.counts.items():
            total[stem] = total.get(stem, 0) + count
    return total


def _add_labels(counts: Mapping[str, int], labels: Mapping[str, int]) -> Mapping[str, int]:
    """Add the counts of the labels to those of a passage."""
    if not labels:
        return counts
    return {**labels, **{stem: count + labels.get(stem, 0) for stem, count in counts.items()}}


def score_passage_words(candidate: Candidate, passage: Passage, weights: Mapping[str, float]) -> float:
    """Score the words of a passage."""
    return _saturate(_add_labels(passage.counts, candidate.labels), weights, SATURATION)


def _saturate(counts: Mapping[str, int], weights: Mapping[str, float], damping: float) -> float:
    found = 0.0
    for stem, count in counts.items():
        found += weights.get(stem, 0.0) * _GAIN * count / (count + damping)
    return found


def score_voice(candidate: Candidate, speaker_weights: Mapping[str | None, float]) -> float:
    """Score whether a speaker that the query names says it, or a passage of it."""
    own = speaker_weights.get(candidate.speaker, 0.0)
    if not speaker_weights or not _has_own_speakers(candidate):
        return own
    return max(own, *(speaker_weights.get(piece.speaker, 0.0) for piece in candidate.pieces))


def _has_own_speakers(candidate: Candidate) -> bool:
    """Whether its passages have their own speakers."""
    return bool(candidate.pieces) and candidate.pieces[0].speaker is not None


def score_speaker_words(
    candidate: Candidate, voice: float, weights: Mapping[str, float], speaker_weights: Mapping[str | None, float]
) -> float:
    """Score what the speaker adds to the words: half for the whole, half for the best passage with its speaker."""
    whole = SPEAKER_WORDS * voice
    if not voice or not _has_own_speakers(candidate):
        return whole
    parts = [
        (score_passage_words(candidate, piece, weights), speaker_weights.get(piece.speaker, 0.0))
        for piece in candidate.pieces
    ]
    best = max(words for words, _ in parts)
    best_with_speaker = max(words + SPEAKER_WORDS * speaks for words, speaks in parts)
    return 0.5 * whole + 0.5 * (best_with_speaker - best)


def score_nearness(candidate: Candidate, speaker_weights: Mapping[str | None, float]) -> float | None:
    """Combine the cosines of the best passage, the second best, and for a reply the one with the previous message.

    Passages of a named speaker count as nearer.
    """
    own = SPEAKER_COSINE * speaker_weights.get(candidate.speaker, 0.0)
    first, second = None, UNRELATED
    for piece in candidate.pieces:
        if piece.cosine is not None:
            near = piece.cosine + (SPEAKER_COSINE * speaker_weights.get(piece.speaker, 0.0) if piece.speaker else own)
            if first is None or near > first:
                first, second = near, second if first is None else max(second, first)
            else:
                second = max(second, near)
    if first is None:
        return None
    nearest = first + SECOND_SHARE * (second - UNRELATED)
    if candidate.reply is None:
        return nearest
    return (1 - REPLY_SHARE) * nearest + REPLY_SHARE * (candidate.reply + own)


NO_THREAD = (0.0, 0.0)


class FeatureTable:
    """The features of each candidate, and what all candidates are compared with."""

    def __init__(
        self, candidates: Sequence[Candidate], neighbours: Sequence[Candidate], stems: Sequence[str], scope: Scope
    ) -> None:
        self.candidates = candidates
        self._weights = compute_word_weights(stems, scope)
        everyone, voices = (*candidates, *neighbours), scope.speaker_weights()
        self.bm25 = {one.id: score_words(one, self._weights, scope.mean_length) for one in everyone}
        self._best_bm25 = max(self.bm25.values(), default=0.0) or 1.0
        self._voices = {one.id: score_voice(one, voices) for one in everyone}
        raw = {
            one.id: self.bm25[one.id] + score_speaker_words(one, self._voices[one.id], self._weights, voices)
            for one in everyone
        }
        best = max((raw[one.id] for one in candidates), default=0.0) or 1.0
        self._words: dict[str | None, float] = {id: min(1.0, value / best) for id, value in raw.items()}
        self._asking = {one.id for one in everyone if one.asks and self.bm25[one.id]}
        self._cosine = {one.id: score_nearness(one, voices) for one in candidates}
        known = self._calibrate_cosines()
        self.estimated = self._estimate_missing(known)
        """Estimated vector features of candidates without an embedding, by id."""
        self._vector = known | self.estimated
        self._threads = self._find_best_of_threads(candidates)
        self._event_times = [(event, _find_event_times(stems, candidates)) for event, stems in scope.events]
        self.values = {one.id: self._compute_features(one) for one in candidates}
        """The features of each candidate by id, in the order of `Features`."""

    def _calibrate_cosines(self) -> dict[str, float]:
        """Scale cosines so that unrelated is 0 and the nearest is 1."""
        known = {id: near for id, near in self._cosine.items() if near is not None}
        span = max(SPAN, max(known.values(), default=0.0) - UNRELATED)
        return {id: max(0.0, (near - UNRELATED) / span) for id, near in known.items()}

    def _estimate_missing(self, known: Mapping[str, float]) -> dict[str, float]:
        """Estimate the vector parts of candidates without a vector from those of candidates with about as many words.

        A missing vector is unknown, not zero. More words never give a lower estimate, none give zero.
        """
        if not known:
            return {}
        curve = fit_monotone((self._words[id], near) for id, near in known.items() if self._words[id])
        return {id: curve.at(self._words[id]) for id, near in self._cosine.items() if near is None}

    def _find_best_of_threads(self, candidates: Sequence[Candidate]) -> dict[str | None, tuple[float, float]]:
        """Find the best word and vector features in each thread of more than one memory."""
        found: dict[str | None, tuple[float, float]] = {}
        for one in candidates:
            if one.group is not None and (one.before or one.after):
                words, vector = found.get(one.group, NO_THREAD)
                found[one.group] = (max(words, self._words[one.id]), max(vector, self._vector.get(one.id, 0.0)))
        return found

    def _get_best_of_thread(self, one: Candidate) -> tuple[float, float]:
        """Return the best word and vector features in the thread of a candidate.

        If others are in threads, a candidate without a thread is the best of its own: otherwise the same words would
        count less for lack of neighbours.
        """
        if one.group in self._threads:
            return self._threads[one.group]
        return (self._words[one.id], self._vector.get(one.id, 0.0)) if self._threads else NO_THREAD

    def _compute_features(self, one: Candidate) -> tuple[float, ...]:
        """Compute the features as a plain tuple in field order: most candidates never need them by name."""
        words, before = self._words, one.before
        return (
            words[one.id],
            self._vector.get(one.id, 0.0),
            self._voices[one.id],
            words.get(before, 0.0),
            words.get(one.long_before, 0.0),
            words.get(one.after, 0.0),
            words[before] if before in self._asking else 0.0,
            *self._get_best_of_thread(one),
            float(one.asks),
            one.date + self._score_events(one) if self._event_times else one.date,
            max([words.get(id, 0.0) for id in one.linked], default=0.0) if one.linked else 0.0,
        )

    def _score_events(self, one: Candidate) -> float:
        """Score whether it is before or after the event that the query names."""
        return max(score_event_side(event, times, one.at) for event, times in self._event_times)

    def find_exact(self) -> frozenset[str]:
        """Find the candidates that contain every query stem that any candidate contains."""
        held = {one.id: _count_all(one).keys() & self._weights.keys() for one in self.candidates}
        every = frozenset[str]().union(*held.values())
        return frozenset(id for id, stems in held.items() if every and len(stems) == len(every))

    def has_threads(self) -> bool:
        return bool(self._threads)

    def find_terms(self, one: Candidate) -> tuple[str, ...]:
        """List the query stems that a candidate contains."""
        found = set(one.labels).union(*(piece.counts for piece in one.pieces))
        return tuple(stem for stem in self._weights if stem in found)

    def find_best_passage(self, one: Candidate) -> Passage | None:
        """Return the passage with the highest sum of words and cosine."""
        if len(one.pieces) == 1:
            return one.pieces[0]

        def score_passage(passage: Passage) -> float:
            return score_passage_words(one, passage, self._weights) / self._best_bm25 + (passage.cosine or 0.0)

        return max(one.pieces, key=score_passage, default=None)


def _find_event_times(stems: Collection[str], candidates: Sequence[Candidate]) -> list[int]:
    """List the times of the candidates that mention an event by name."""
    return sorted({one.at for one in candidates if _count_all(one).keys() >= set(stems)})


# Isotonic regression


class Curve(NamedTuple):
    """A non-decreasing, piecewise linear function from (0, 0) on; constant after its last knot."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]

    def at(self, x: float) -> float:
        after = bisect_left(self.xs, x)
        if after == len(self.xs):
            return self.ys[-1]
        if after == 0 or self.xs[after] == x:
            return self.ys[after]
        x0, x1, y0, y1 = *self.xs[after - 1 : after + 1], *self.ys[after - 1 : after + 1]
        return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


class _Block(NamedTuple):
    """Neighbouring points that are pooled into their mean."""

    first: float
    last: float
    total: float
    points: int

    def mean(self) -> float:
        return self.total / self.points


def fit_monotone(points: Iterable[tuple[float, float]]) -> Curve:
    """Fit a curve by least squares to points with x > 0 and y >= 0, pooling decreasing neighbours into their mean."""
    blocks: list[_Block] = []
    for x, same in groupby(sorted(points), itemgetter(0)):
        ys = [y for _, y in same]
        block = _Block(x, x, sum(ys), len(ys))
        while blocks and blocks[-1].mean() >= block.mean():
            before = blocks.pop()
            block = _Block(before.first, x, before.total + block.total, before.points + block.points)
        blocks.append(block)
    knots = [(0.0, 0.0), *((x, block.mean()) for block in blocks for x in (block.first, block.last))]
    return Curve(tuple(x for x, _ in knots), tuple(y for _, y in knots))
