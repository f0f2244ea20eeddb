"""Extractive summaries: sentences chosen by content and position, verbatim."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import sqrt
from typing import NamedTuple

from holdfast.kernel.text.sentences import split_sentences
from holdfast.kernel.text.words import STOP, terms

EARLY_BONUS = 0.35
"""Weight bonus of the first sentence over the last."""


class WeightedSentence(NamedTuple):
    """A sentence and its weight."""

    position: int
    text: str
    weight: float


def extract_summary(text: str, max_sentences: int = 3, rarity: Callable[[str], float] = lambda term: 1.0) -> str:
    """Extract the most relevant sentences, verbatim and in order; the whole text if it has no more."""
    weights = weigh_sentences(text, rarity)
    best = sorted(weights, key=lambda one: (-one.weight, one.position))[:max_sentences]
    return " ".join(one.text for one in sorted(best, key=lambda one: one.position))


def fit_summary(text: str, max_size: int, size: Callable[[str], int]) -> str:
    """Extract the most relevant sentences that fit into a size, verbatim and in order.

    If none fits, the most relevant one is truncated.
    """
    ranked = sorted(weigh_sentences(text), key=lambda one: (-one.weight, one.position))
    chosen: list[WeightedSentence] = []
    room = max_size
    for one in ranked:
        if (needs := size(one.text) + 1) <= room:
            chosen.append(one)
            room -= needs
    if not chosen and ranked:
        return _truncate(ranked[0].text, max_size, size)
    return " ".join(one.text for one in sorted(chosen, key=lambda one: one.position))


def _truncate(text: str, max_size: int, size: Callable[[str], int]) -> str:
    while text and size(f"{text}...") > max_size:
        text = text[: len(text) * 3 // 4]
    return f"{text}..." if text else ""


def weigh_sentences(text: str, rarity: Callable[[str], float] = lambda term: 1.0) -> list[WeightedSentence]:
    """Weigh each distinct sentence by words frequent in the text and rare elsewhere, and by position."""
    distinct = list(dict.fromkeys(text[start:end] for start, end in split_sentences(text)))
    words = [extract_content_words(one) for one in distinct]
    counts = Counter(word for many in words for word in many)
    return [
        WeightedSentence(
            place, one, _weigh_words(words[place], counts, rarity) * _position_factor(place, len(distinct))
        )
        for place, one in enumerate(distinct)
    ]


def extract_content_words(text: str) -> list[str]:
    """Extract the content words of a text; character bigrams for scripts without spaces."""
    return [word for word in terms(text) if word not in STOP]


def _weigh_words(words: Sequence[str], counts: Counter[str], rarity: Callable[[str], float]) -> float:
    """Weigh the words. Each counts once, normalized by length, so that long sentences do not win."""
    distinct = dict.fromkeys(words)
    return sum(sqrt(counts[word]) * rarity(word) for word in distinct) / sqrt(len(distinct) + 3) if distinct else 0.0


def _position_factor(place: int, number: int) -> float:
    return 1.0 + EARLY_BONUS * (number - place) / number
