"""What a text comes to, in its own sentences: chosen by what they speak of and where they stand, never reworded."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import sqrt
from typing import NamedTuple

from holdfast.kernel.text.bigrams import terms
from holdfast.kernel.text.sentences import sentences
from holdfast.kernel.text.words import STOP

EARLY = 0.35
"""How much more the first sentence of a text weighs than one at its end."""


class Weighed(NamedTuple):
    """A sentence and what it weighs."""

    place: int
    text: str
    weight: float


def summary(text: str, most: int = 3, rarity: Callable[[str], float] = lambda term: 1.0) -> str:
    """The weightiest sentences of a text, word for word and in their order; all of it, if it has no more."""
    said = weighed(text, rarity)
    chosen = sorted(said, key=lambda one: (-one.weight, one.place))[:most]
    return " ".join(one.text for one in sorted(chosen, key=lambda one: one.place))


def fitting(text: str, most: int, size: Callable[[str], int]) -> str:
    """The weightiest sentences of a text that fit together into a size, word for word and in their order.

    If none does, the weightiest is cut.
    """
    said = sorted(weighed(text), key=lambda one: (-one.weight, one.place))
    chosen: list[Weighed] = []
    room = most
    for one in said:
        if (needs := size(one.text) + 1) <= room:
            chosen.append(one)
            room -= needs
    if not chosen and said:
        return _cut(said[0].text, most, size)
    return " ".join(one.text for one in sorted(chosen, key=lambda one: one.place))


def _cut(text: str, most: int, size: Callable[[str], int]) -> str:
    while text and size(f"{text}...") > most:
        text = text[: len(text) * 3 // 4]
    return f"{text}..." if text else ""


def weighed(text: str, rarity: Callable[[str], float] = lambda term: 1.0) -> list[Weighed]:
    """Each different sentence with its weight: by words that the text speaks of often, rare elsewhere, and by place."""
    said = list(dict.fromkeys(text[start:end] for start, end in sentences(text)))
    words = [meant(one) for one in said]
    counts = Counter(word for many in words for word in many)
    return [
        Weighed(place, one, _weight(words[place], counts, rarity) * _early(place, len(said)))
        for place, one in enumerate(said)
    ]


def meant(text: str) -> list[str]:
    """The words of a text that carry its meaning, pairs of characters where words are not told apart."""
    return [word for word in terms(text) if word not in STOP]


def _weight(words: Sequence[str], counts: Counter[str], rarity: Callable[[str], float]) -> float:
    """Not the longest wins: each word counts once, and a long sentence less for each."""
    distinct = dict.fromkeys(words)
    return sum(sqrt(counts[word]) * rarity(word) for word in distinct) / sqrt(len(distinct) + 3) if distinct else 0.0


def _early(place: int, number: int) -> float:
    return 1.0 + EARLY * (number - place) / number
