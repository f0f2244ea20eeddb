"""The order of what was found.

Words, vectors, neighbours, thread, speaker and date each give a part of about 0 to 1; the parts are weighted and
summed. Priority, confidence, age and use only adjust the sum. Everything here is a pure function of the candidates:
the same ones give the same order, whoever fetched them.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from math import log
from operator import mul
from typing import NamedTuple

from msgspec import Struct

from holdfast.features.recall.dates import Event, sidedness
from holdfast.features.recall.monotone import fit_monotone
from holdfast.kernel.text.passages import ROLES
from holdfast.kernel.timestamps import DAY


class Weights(NamedTuple):
    """How much each part counts. Made by tools/fit_weights.py, then rounded: halving any one of them changes little."""

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

PRIOR = 300
"""So many memories of the whole store stand behind the rarity of a word in a small scope."""
RARITY_POWER = 1.55
NAME_FACTOR = 0.3
"""A name says less than another word as rare: who speaks is a part of its own."""
SATURATION = 0.9
_GAIN = SATURATION + 1
LENGTH_SHARE = 0.75
SPEAKER_WORDS = 2.0
SPEAKER_COSINE = 0.2
UNRELATED = 0.2
"""About the cosine of two texts that have nothing to do with each other."""
SPAN = 0.3
"""At least so far above that is the nearest taken to be: a weak best does not count in full."""
SECOND_SHARE = 0.15
"""How much of the second nearest passage counts beside the nearest: what a memory dwells on is not said in passing."""
REPLY_SHARE = 0.5
"""How much of a reply's nearness is that of the reply together with the end of what it replies to."""
OTHERS_VOICE = 0.25
"""What somebody says whom the question names, but not first."""
RELATED = 0.25
"""What no word found must be so near at least."""
EXACT_LEAD = 0.1
"""The share of its lead that an exact match without a vector keeps at least, whatever vectors others have."""

PRIORITY_WEIGHT = 0.05
CONFIDENCE_WEIGHT = 0.10
RECENCY_WEIGHT = 0.03
RECENCY_HALF_DAYS = 30
USE_WEIGHT = 0.02
MANY_USES = 50
_MANY_USES = log(1 + MANY_USES)
UTILITY_WEIGHT = 0.15
OVER_FACTOR = 0.7
"""For what holds no longer: superseded, or past its time."""


class Piece(Struct, frozen=True, gc=False):
    """A passage: where it stands, how often each asked stem stands in it, who says it, how near it is."""

    begins: int
    ends: int
    counts: Mapping[str, int]
    speaker: str | None = None
    cosine: float | None = None


class Candidate(Struct, frozen=True, gc=False):
    """A memory that may be an answer, as far as the order needs it."""

    id: str
    pieces: Sequence[Piece]
    length: int
    """Stems in all of it."""
    labels: Mapping[str, int] = {}
    """How often each asked stem stands in its title and tags."""
    reply: float | None = None
    """The cosine of it together with the end of what it replies to."""
    speaker: str | None = None
    group: str | None = None
    """What was said together with it; None: it stands alone."""
    before: str | None = None
    long_before: str | None = None
    after: str | None = None
    asks: bool = False
    date: float = 0.0
    linked: Collection[str] = ()
    """Candidates that it is linked to."""
    priority: int = 5
    confidence: float = 1.0
    updated_at: int = 0
    uses: int = 0
    utility: float = 0.0
    """What was said of its use before: -1 to 1."""
    over: bool = False
    """It holds no longer."""
    at: int = 0
    """When it was said."""


class Scope(NamedTuple):
    """What the candidates were taken from."""

    memories: int
    usual_length: float
    held: Mapping[str, int]
    """In how many of the scope's memories each asked stem stands."""
    share: Mapping[str, float]
    """In which share of all memories of the store."""
    names: frozenset[str] = frozenset()
    """Asked stems that are names of people who speak here."""
    named: tuple[str, ...] = ()
    """The speakers whom the question names, in its order."""
    events: tuple[tuple[Event, frozenset[str]], ...] = ()
    """Before or after what it asks, each with the stems of its name."""

    def voices(self) -> dict[str | None, float]:
        """How much the question is about each speaker: 1 for the first it names or a role, less for others."""
        first = self.named[:1]
        return {name: 1.0 if name in first or name.lower() in ROLES else OTHERS_VOICE for name in self.named}


class Parts(NamedTuple):
    """Why a candidate stands where it does: each part before its weight."""

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

    def sum(self, weights: Weights = WEIGHTS) -> float:
        return _sum(self, weights)


def _sum(parts: Sequence[float], weights: Weights) -> float:
    return float(sum(map(mul, parts, weights)))


class Adjusted(NamedTuple):
    """What each reason adds to the factor of 1 by which a sum is adjusted; `over` is a factor of its own."""

    priority: float
    confidence: float
    recency: float
    use: float
    feedback: float
    over: float

    def factor(self) -> float:
        return _factor(self)


class Ranked(NamedTuple):
    """A candidate in its place, and why it is there."""

    id: str
    score: float
    """The sum of the weighted parts, adjusted."""
    parts: Parts
    adjusted: Adjusted
    bm25: float
    cosine: float | None
    """Of its nearest passage, as it is."""
    terms: tuple[str, ...]
    """The asked stems that it holds."""
    piece: Piece | None
    """The passage that bears most on the question."""


def word_weights(stems: Sequence[str], scope: Scope) -> dict[str, float]:
    """How much each asked stem says: the rarer the more, a name less."""
    found = {}
    for stem in stems:
        held = scope.held.get(stem, 0) + PRIOR * scope.share.get(stem, 0.0)
        rarity = log(1 + max(0.0, scope.memories + PRIOR - held + 0.5) / (held + 0.5))
        found[stem] = rarity**RARITY_POWER * (NAME_FACTOR if stem in scope.names else 1.0)
    return found


def lexical(candidate: Candidate, weights: Mapping[str, float], usual_length: float) -> float:
    """Half by the whole text, half by its best passage; title and tags belong to each."""
    pieces = candidate.pieces
    total = _with_labels(pieces[0].counts, candidate.labels) if len(pieces) == 1 else _together(candidate)
    if not total:
        return 0.0
    damping = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * candidate.length / (usual_length or 1.0))
    whole = _saturated(total, weights, damping)
    if len(pieces) == 1:
        part = _saturated(total, weights, SATURATION)
    else:
        part = max([passage_words(candidate, piece, weights) for piece in pieces], default=0.0)
    return 0.5 * whole + 0.5 * part


def _together(candidate: Candidate) -> Mapping[str, int]:
    """How often each asked stem stands in a memory."""
    total = dict(candidate.labels)
    for piece in candidate.pieces:
        for stem, count in piece.counts.items():
            total[stem] = total.get(stem, 0) + count
    return total


def _with_labels(counts: Mapping[str, int], labels: Mapping[str, int]) -> Mapping[str, int]:
    """How often each asked stem stands in a passage, or in the labels, which belong to each."""
    if not labels:
        return counts
    return {**labels, **{stem: count + labels.get(stem, 0) for stem, count in counts.items()}}


def passage_words(candidate: Candidate, piece: Piece, weights: Mapping[str, float]) -> float:
    """How much a passage says to the words that were asked for."""
    return _saturated(_with_labels(piece.counts, candidate.labels), weights, SATURATION)


def _saturated(counts: Mapping[str, int], weights: Mapping[str, float], damping: float) -> float:
    found = 0.0
    for stem, count in counts.items():
        found += weights.get(stem, 0.0) * _GAIN * count / (count + damping)
    return found


def voice(candidate: Candidate, voices: Mapping[str | None, float]) -> float:
    """Whether somebody whom the question names says it, or a passage of it."""
    own = voices.get(candidate.speaker, 0.0)
    if not voices or not _in_turns(candidate):
        return own
    return max(own, *(voices.get(piece.speaker, 0.0) for piece in candidate.pieces))


def _in_turns(candidate: Candidate) -> bool:
    """Whether its passages have speakers of their own."""
    return bool(candidate.pieces) and candidate.pieces[0].speaker is not None


def spoken(
    candidate: Candidate, speaks: float, weights: Mapping[str, float], voices: Mapping[str | None, float]
) -> float:
    """What who speaks adds to its words: half to the whole, half to the passage that is best with its own speaker."""
    whole = SPEAKER_WORDS * speaks
    if not speaks or not _in_turns(candidate):
        return whole
    parts = [(passage_words(candidate, piece, weights), voices.get(piece.speaker, 0.0)) for piece in candidate.pieces]
    best, heard = max(words for words, _ in parts), max(words + SPEAKER_WORDS * speaks for words, speaks in parts)
    return 0.5 * whole + 0.5 * (heard - best)


def nearness(candidate: Candidate, voices: Mapping[str | None, float]) -> float | None:
    """The best passage's cosine, a little more if the next best is near too; of a reply, also with what it replies to.

    What a named person says is nearer.
    """
    own = SPEAKER_COSINE * voices.get(candidate.speaker, 0.0)
    first, second = None, UNRELATED
    for piece in candidate.pieces:
        if piece.cosine is not None:
            near = piece.cosine + (SPEAKER_COSINE * voices.get(piece.speaker, 0.0) if piece.speaker else own)
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


def ranked(
    candidates: Sequence[Candidate],
    around: Sequence[Candidate],
    stems: Sequence[str],
    scope: Scope,
    now: int,
    *,
    most: int | None = None,
    weights: Weights = WEIGHTS,
) -> list[Ranked]:
    """So many in order, best first; of equals, the newer. `around` are neighbours that are no candidates."""
    order = Order(candidates, around, stems, scope)
    adjustment = {one.id: adjustments(one, now) for one in candidates}
    measured = order.all_parts(candidates, {id: _factor(adjusted) for id, adjusted in adjustment.items()})
    scored = []
    for one in candidates:
        parts, adjusted = measured[one.id], adjustment[one.id]
        scored.append((-_sum(parts, weights) * _factor(adjusted), -one.updated_at, one.id, parts, adjusted, one))
    scored.sort()
    return [
        order.ranked(one, -score, Parts(*parts), Adjusted(*adjusted))
        for score, _, _, parts, adjusted, one in scored[:most]
    ]


NO_THREAD = (0.0, 0.0)


class Order:
    """What every candidate's parts are measured against."""

    def __init__(
        self, candidates: Sequence[Candidate], around: Sequence[Candidate], stems: Sequence[str], scope: Scope
    ) -> None:
        self._weights = word_weights(stems, scope)
        everyone, voices = (*candidates, *around), scope.voices()
        self.bm25 = {one.id: lexical(one, self._weights, scope.usual_length) for one in everyone}
        self._most = max(self.bm25.values(), default=0.0) or 1.0
        self._speaks = {one.id: voice(one, voices) for one in everyone}
        raw = {one.id: self.bm25[one.id] + spoken(one, self._speaks[one.id], self._weights, voices) for one in everyone}
        best = max((raw[one.id] for one in candidates), default=0.0) or 1.0
        self._words: dict[str | None, float] = {id: min(1.0, value / best) for id, value in raw.items()}
        self._asking = {one.id for one in everyone if one.asks and self.bm25[one.id]}
        self._cosine = {one.id: nearness(one, voices) for one in candidates}
        known = self._calibrated()
        self._estimated = self._estimate_missing(known)
        self._vector = known | self._estimated
        self._threads = self._best_of_threads(candidates)
        self._told = [(event, _times_of(stems, candidates)) for event, stems in scope.events]

    def _calibrated(self) -> dict[str, float]:
        """Cosines between what is unrelated and the nearest."""
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

    def _find_exact(self, candidates: Sequence[Candidate]) -> frozenset[str]:
        """The candidates that hold every asked stem which any candidate holds."""
        held = {one.id: _together(one).keys() & self._weights.keys() for one in candidates}
        every = frozenset[str]().union(*held.values())
        return frozenset(id for id, stems in held.items() if every and len(stems) == len(every))

    def _best_of_threads(self, candidates: Sequence[Candidate]) -> dict[str | None, tuple[float, float]]:
        """The best word and vector part in each thread of more than one memory."""
        found: dict[str | None, tuple[float, float]] = {}
        for one in candidates:
            if one.group is not None and (one.before or one.after):
                words, vector = found.get(one.group, NO_THREAD)
                found[one.group] = (max(words, self._words[one.id]), max(vector, self._vector.get(one.id, 0.0)))
        return found

    def _best_of_thread(self, one: Candidate) -> tuple[float, float]:
        """The best word and vector part in a candidate's thread.

        Where others are in threads, a candidate that stands alone is the best of its own: otherwise the same words
        would count for less because nothing was said beside them.
        """
        if one.group in self._threads:
            return self._threads[one.group]
        return (self._words[one.id], self._vector.get(one.id, 0.0)) if self._threads else NO_THREAD

    def all_parts(self, candidates: Sequence[Candidate], factors: Mapping[str, float]) -> dict[str, tuple[float, ...]]:
        """The parts of each candidate, by its id; `factors` are what will multiply the sums."""
        found = {one.id: self.parts(one) for one in candidates}
        if self._estimated:
            exact = self._find_exact(candidates)
            if lacking := exact & self._estimated.keys():
                found |= _raise_exact(found, factors, exact, lacking, threads=bool(self._threads))
        return found

    def parts(self, one: Candidate) -> tuple[float, ...]:
        """Those of `Parts`, in their order: of most candidates nobody will ask for one by its name."""
        words, before = self._words, one.before
        return (
            words[one.id],
            self._vector.get(one.id, 0.0),
            self._speaks[one.id],
            words.get(before, 0.0),
            words.get(one.long_before, 0.0),
            words.get(one.after, 0.0),
            words[before] if before in self._asking else 0.0,
            *self._best_of_thread(one),
            float(one.asks),
            one.date + self._beside_events(one) if self._told else one.date,
            max([words.get(id, 0.0) for id in one.linked], default=0.0) if one.linked else 0.0,
        )

    def _beside_events(self, one: Candidate) -> float:
        """Whether it was said before or after what the question names, as that asks."""
        return max(sidedness(event, told, one.at) for event, told in self._told)

    def ranked(self, one: Candidate, score: float, parts: Parts, adjusted: Adjusted) -> Ranked:
        held = set(one.labels).union(*(piece.counts for piece in one.pieces))
        return Ranked(
            id=one.id,
            score=score,
            parts=parts,
            adjusted=adjusted,
            bm25=self.bm25[one.id],
            cosine=max((piece.cosine for piece in one.pieces if piece.cosine is not None), default=None),
            terms=tuple(stem for stem in self._weights if stem in held),
            piece=self._best_piece(one),
        )

    def _best_piece(self, one: Candidate) -> Piece | None:
        """The passage with the most of words and nearness together."""
        if len(one.pieces) == 1:
            return one.pieces[0]

        def bearing(piece: Piece) -> float:
            return passage_words(one, piece, self._weights) / self._most + (piece.cosine or 0.0)

        return max(one.pieces, key=bearing, default=None)


def _raise_exact(
    parts: Mapping[str, tuple[float, ...]],
    factors: Mapping[str, float],
    exact: Collection[str],
    lacking: Collection[str],
    *,
    threads: bool,
) -> dict[str, tuple[float, ...]]:
    """Raise the estimates of exact matches that lack a vector until each stays ahead of the other candidates that all
    parts but the vectors put behind it: the vectors of others never move an exact match below them."""
    sums = {id: _sum(one, WEIGHTS) for id, one in parts.items()}
    rest = {id: (sums[id] - _sum_of_vectors(one)) * factors[id] for id, one in parts.items()}
    others = sorted((rest[id], sums[id] * factors[id]) for id in parts if id not in exact)
    behind = [value for value, _ in others]
    highest = list(accumulate((score - EXACT_LEAD * value for value, score in others), max))
    raised = {}
    for id in lacking:
        if at := bisect_left(behind, rest[id]):
            missing = (highest[at - 1] + EXACT_LEAD * rest[id]) / factors[id] - sums[id]
            if missing > 0:
                raised[id] = _raise_vectors(parts[id], missing, threads=threads)
    return raised


_VECTOR, _THREAD_VECTOR = Parts._fields.index("vector"), Parts._fields.index("thread_vector")


def _sum_of_vectors(parts: Sequence[float]) -> float:
    return parts[_VECTOR] * WEIGHTS.vector + parts[_THREAD_VECTOR] * WEIGHTS.thread_vector


def _raise_vectors(parts: tuple[float, ...], missing: float, *, threads: bool) -> tuple[float, ...]:
    """Parts whose sum is larger by what is missing, as far as the vector parts can give it: no part is above 1."""
    found = list(parts)
    for place in (_VECTOR, _THREAD_VECTOR) if threads else (_VECTOR,):
        before = found[place]
        found[place] = min(1.0, before + max(0.0, missing) / WEIGHTS[place])
        missing -= (found[place] - before) * WEIGHTS[place]
    return tuple(found)


def _times_of(stems: Collection[str], candidates: Sequence[Candidate]) -> list[int]:
    """The times at which something was told of by the words of its name."""
    return sorted({one.at for one in candidates if _together(one).keys() >= set(stems)})


def adjustments(one: Candidate, now: int) -> tuple[float, ...]:
    """Those of `Adjusted`, in their order, all gentle."""
    age_days = max(0, now - one.updated_at) / DAY
    return (
        PRIORITY_WEIGHT * (one.priority - 5) / 5,
        -CONFIDENCE_WEIGHT * (1.0 - one.confidence),
        RECENCY_WEIGHT * (RECENCY_HALF_DAYS / (RECENCY_HALF_DAYS + age_days) - 1.0),
        USE_WEIGHT * min(1.0, log(1 + one.uses) / _MANY_USES),
        UTILITY_WEIGHT * one.utility,
        OVER_FACTOR if one.over else 1.0,
    )


def _factor(adjusted: Sequence[float]) -> float:
    priority, confidence, recency, use, feedback, over = adjusted
    return (1.0 + priority + confidence + recency + use + feedback) * over
