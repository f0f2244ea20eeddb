"""Deterministic clustering of texts by shared words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

MAX_SHARED_WORDS = 5


class Group(NamedTuple):
    ids: tuple[str, ...]
    """Sorted ids."""
    similarity: float
    """Lowest similarity of a member to the centre."""
    shared: tuple[str, ...]
    """Words that most members have, most frequent first."""


def find_groups(
    words: Mapping[str, frozenset[str]], *, min_similarity: float, min_size: int, max_size: int
) -> list[Group]:
    """Group texts around those with most similar texts; each text is in at most one group.

    Ties are broken by id, so that the same texts make the same groups.
    """
    near = _find_neighbours(words, min_similarity)
    found, taken = list[Group](), set[str]()
    for middle in sorted(near, key=lambda id: (-len(near[id]), id)):
        around = [(likeness, id) for likeness, id in near[middle] if id not in taken]
        if middle in taken or len(around) + 1 < min_size:
            continue
        chosen = sorted(around, key=lambda one: (-one[0], one[1]))[: max_size - 1]
        ids = tuple(sorted([middle, *(id for _, id in chosen)]))
        found.append(Group(ids, min(likeness for likeness, _ in chosen), _common_words([words[id] for id in ids])))
        taken.update(ids)
    return found


def _find_neighbours(words: Mapping[str, frozenset[str]], min_similarity: float) -> dict[str, list[tuple[float, str]]]:
    """Return the similar texts of each text."""
    near: dict[str, list[tuple[float, str]]] = {id: [] for id in words}
    ids = sorted(words)
    for place, one in enumerate(ids):
        for other in ids[place + 1 :]:
            if (likeness := jaccard(words[one], words[other])) >= min_similarity:
                near[one].append((likeness, other))
                near[other].append((likeness, one))
    return near


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the Jaccard similarity of two word sets."""
    both = len(one & other)
    return both / (len(one) + len(other) - both) if both else 0.0


def _common_words(texts: Sequence[frozenset[str]]) -> tuple[str, ...]:
    counts = Counter(word for text in texts for word in text)
    often = [word for word, count in counts.items() if count * 2 > len(texts)]
    return tuple(sorted(often, key=lambda word: (-counts[word], word))[:MAX_SHARED_WORDS])
