"""Extractive summaries: sentences chosen by content and position, verbatim."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import sqrt
from typing import NamedTuple

from holdfast.kernel.text.bigrams import terms
from holdfast.kernel.text.sentences import sentences
from holdfast.kernel.text.words import STOP

EARLY = 0.35
"""Weight bonus of the first sentence over the last."""


class Weighed(NamedTuple):
    """A sentence and its weight."""

    place: int
    text: str
    weight: float


def summary(text: str, most: int = 3, rarity: Callable[[str], float] = lambda term: 1.0) -> str:
    """Extract the most relevant sentences, verbatim and in order; the whole text if it has no more."""
    weights = weighed(text, rarity)
    best = sorted(weights, key=lambda one: (-one.weight, one.place))[:most]
    return " ".join(one.text for one in sorted(best, key=lambda one: one.place))


def fitting(text: str, most: int, size: Callable[[str], int]) -> str:
    """Extract the most relevant sentences that fit into a size, verbatim and in order.

    If none fits, the most relevant one is truncated.
    """
    ranked = sorted(weighed(text), key=lambda one: (-one.weight, one.place))
    chosen: list[Weighed] = []
    room = most
    for one in ranked:
        if (needs := size(one.text) + 1) <= room:
            chosen.append(one)
            room -= needs
    if not chosen and ranked:
        return _cut(ranked[0].text, most, size)
    return " ".join(one.text for one in sorted(chosen, key=lambda one: one.place))


def _cut(text: str, most: int, size: Callable[[str], int]) -> str:
    while text and size(f"{text}...") > most:
        text = text[: len(text) * 3 // 4]
    return f"{text}..." if text else ""


def weighed(text: str, rarity: Callable[[str], float] = lambda term: 1.0) -> list[Weighed]:
    """Weigh each distinct sentence by words frequent in the text and rare elsewhere, and by position."""
    distinct = list(dict.fromkeys(text[start:end] for start, end in sentences(text)))
    words = [meant(one) for one in distinct]
    counts = Counter(word for many in words for word in many)
    return [
        Weighed(place, one, _weight(words[place], counts, rarity) * _early(place, len(distinct)))
        for place, one in enumerate(distinct)
    ]


def meant(text: str) -> list[str]:
    """Extract the content words of a text; character bigrams for scripts without spaces."""
    return [word for word in terms(text) if word not in STOP]


def _weight(words: Sequence[str], counts: Counter[str], rarity: Callable[[str], float]) -> float:
    """Weigh the words. Each counts once, normalized by length, so that long sentences do not win."""
    distinct = dict.fromkeys(words)
    return sum(sqrt(counts[word]) * rarity(word) for word in distinct) / sqrt(len(distinct) + 3) if distinct else 0.0


def _early(place: int, number: int) -> float:
    return 1.0 + EARLY * (number - place) / number
