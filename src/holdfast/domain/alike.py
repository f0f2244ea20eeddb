"""How two texts stand to each other: the same, nearly the same, newer, at odds, or about something else."""

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import Literal, NamedTuple

from .terms import Term, read

Relation = Literal["same", "near", "update", "conflict", "other"]


class Likeness(NamedTuple):
    """How two texts stand to each other, how much they share, 0 to 1, and what that was decided by."""

    relation: Relation
    score: float
    reason: str


_WEIGHT = {"word": 1.0, "name": 1.5, "value": 1.5, "not": 1.0, "filler": 0.1}
NEAR = 0.8
SUBJECT = 0.55


def compare(old: str, new: str, cosine: float | None = None) -> Likeness:
    """How a new text stands to one that is there."""
    before, after = read(old), read(new)
    if before == after:
        return Likeness("same", 1.0, "the same but for case, blanks and punctuation")
    lost, gained = Counter(before), Counter(after)
    lost, gained = lost - gained, gained - lost
    score = 1 - (_weight(lost) + _weight(gained)) / max(1e-9, _weight(Counter(before)) + _weight(Counter(after)))
    if score < SUBJECT:
        return Likeness("other", score, "they share too little")
    if _of("not", lost) != _of("not", gained):
        return Likeness("conflict", score, "one denies what the other says")
    if _of("name", lost) and _of("name", gained):
        return Likeness("other", score, "they name different things")
    if _of("value", lost) and _of("value", gained):
        return Likeness("conflict", score, "they give different values")
    if not lost and gained:
        return Likeness("update", score, "the new one says all of the old one and more")
    if score >= NEAR:
        return Likeness("near", score, "they share nearly all their words")
    return Likeness("other", score, "they share too little")


def _weight(terms: Counter[Term]) -> float:
    return sum(_WEIGHT[term.sort] * count for term, count in terms.items())


def _of(sort: str, terms: Iterable[Term]) -> set[str]:
    return {term.means for term in terms if term.sort == sort}


BANDS = 6
ROWS = 2


def gist(text: str) -> tuple[int, ...]:
    """Numbers that near-duplicates are likely to share at least one of; the first is shared by equal texts alone.

    MinHash in bands: each further number stands for two least hashes of the text's pairs of terms.
    """
    means = [term.means for term in read(text) if term.sort != "filler"]
    if not means:
        return ()
    whole = _hash("\n".join(means))
    hashes = [_hash(f"{one} {two}") for one, two in zip(means, [*means[1:], ""], strict=True)]
    least = [min(value ^ (value >> 7) * (2 * row + 1) & _MASK for value in hashes) for row in range(BANDS * ROWS)]
    return (whole, *(_hash(f"{band} {least[band * ROWS : band * ROWS + ROWS]}") for band in range(BANDS)))


_MASK = (1 << 63) - 1


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big") & _MASK
