"""How two texts stand to each other: the same, nearly the same, newer, at odds, or about something else."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeVar
from unicodedata import normalize
from zlib import crc32

from .terms import Term, read, stemmed
from .words import visible

T = TypeVar("T")

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


def compare_titled(old_title: str, old: str, new_title: str, new: str, cosine: float | None = None) -> Likeness:
    """How a new text stands to one that is there, if both have titles that may tell what they are about."""
    found = compare(old, new, cosine)
    if found.relation == "other":
        return found
    if distinct(old_title, new_title, f"{old}\n{new}"):
        return Likeness("other", found.score, "their titles name different things")
    return found


_LABELS = frozenset(
    map(
        stemmed,
        "note memory title test item entry copy duplicate dup first second third new old different same".split(),
    )
)


def distinct(old: str, new: str, said: str, *, surely: bool = True) -> bool:
    """Whether titles tell apart what is said under them: by a value or a name in the place of another, or altogether.

    Not `surely`: also by any other word in the place of another.
    """
    known = {term.means for term in read(said)}
    ours, theirs = _telling(old), _telling(new)
    lost = {term for term in ours - theirs if term.means not in known}
    gained = {term for term in theirs - ours if term.means not in known}
    if not gained:
        return False
    if not any(term.means in known or term in ours for term in theirs):
        return True
    telling = {"value", "name"} if surely else {"value", "name", "word"}
    return all(any(term.sort in telling for term in terms) for terms in (lost, gained))


def _telling(title: str) -> set[Term]:
    """What a title tells, beyond being a title: nothing, if it is only a letter or a number."""
    terms = {term for term in read(f"It is {title}") if term.sort != "filler" and term.means not in _LABELS}
    return terms if any(term.sort != "value" and len(term.means) > 1 for term in terms) else set()


def plain(text: str) -> str:
    """A text without what does not count if it is given twice: case, blanks, and a stop at its end."""
    return " ".join(normalize("NFKC", visible(text)).casefold().split()).rstrip(" .!。")


ECHO = 0.9
_FRAME = frozenset(map(stemmed, "according memory recalled recall noted earlier previously stored note notes".split()))
_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


def echoes(recalled: Sequence[str], new: str, names: Sequence[T]) -> list[T]:
    """Which of some recalled texts a new one repeats, if it says nothing else; none if it says anything else.

    Nine tenths of its triples of terms stand in them, no term is new, and nothing that is denied, named or counted
    stands beside something else than before.
    """
    own = [(text, _triples(text), {term.means for term in read(text)}) for text in recalled]
    said = {shingle for _, shingles, _ in own for shingle in shingles}
    known = {means for _, _, terms in own for means in terms}
    fresh = _triples(new)
    strange = [shingle for shingle in fresh if shingle not in said]
    if not fresh or len(strange) > (1 - ECHO) * len(fresh):
        return []
    if any(term.means not in known or term.sort in ("value", "name", "not") for shingle in strange for term in shingle):
        return []
    shared = [(len(shingles & fresh), name) for name, (_, shingles, _) in zip(names, own, strict=True)]
    return [name for many, name in sorted(shared, key=lambda one: -one[0]) if many]


def _triples(text: str) -> set[tuple[Term, ...]]:
    """Every three terms in a row of each sentence, or the whole sentence if it has fewer."""
    found = set()
    for sentence in _SENTENCES.split(text):
        terms = [term for term in read(sentence) if term.sort != "filler" and term.means not in _FRAME]
        found.update(tuple(terms[at : at + 3]) for at in range(max(1, len(terms) - 2)))
    return found - {()}


_SPREAD = (0x1F83D9AB, 0x5BE0CD19, 0xD6EF3720)
"""From each of these the two nearest hashes are taken: a MinHash of three bands with two rows."""
_MASK = (1 << 63) - 1


def gist(text: str) -> tuple[int, ...]:
    """Numbers that nearly equal texts are likely to share; the first is shared by equal texts alone."""
    means = [term.means for term in read(text) if term.sort != "filler"]
    return (hashed("\n".join(means)), *bands(set(means))) if means else ()


def bands(terms: Iterable[str]) -> tuple[int, ...]:
    """Numbers of which texts that share most of their terms share at least one, nearly always."""
    hashes = [crc32(term.encode("utf-8", "replace")) for term in terms]
    found = []
    for number, spread in enumerate(_SPREAD):
        near = sorted([value ^ spread for value in hashes])[:2]
        found.append(
            (near[0] * 0x9E3779B97F4A7C15 ^ near[-1] * 0xC2B2AE3D27D4EB4F ^ number * 0x165667B19E3779F9) & _MASK
        )
    return tuple(found)


def hashed(text: str) -> int:
    """A number that only this text has."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big") >> 1
