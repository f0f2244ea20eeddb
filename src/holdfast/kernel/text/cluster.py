"""Which texts have to do with one another: by the words that they share, the same way every time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

TOLD_WORDS = 5


class Group(NamedTuple):
    ids: tuple[str, ...]
    """In their order."""
    likeness: float
    """How alike the least alike of them is to the one in the middle."""
    shared: tuple[str, ...]
    """Words that most of them have, the most shared first."""


def groups(words: Mapping[str, frozenset[str]], *, alike: float, least: int, most: int) -> list[Group]:
    """Groups of texts around the one that is like most others, each text in one group at most.

    Who has as many likenesses as another comes first by its id, so that the same texts make the same groups.
    """
    near = _near(words, alike)
    found, taken = list[Group](), set[str]()
    for middle in sorted(near, key=lambda id: (-len(near[id]), id)):
        around = [(likeness, id) for likeness, id in near[middle] if id not in taken]
        if middle in taken or len(around) + 1 < least:
            continue
        chosen = sorted(around, key=lambda one: (-one[0], one[1]))[: most - 1]
        ids = tuple(sorted([middle, *(id for _, id in chosen)]))
        found.append(Group(ids, min(likeness for likeness, _ in chosen), _shared([words[id] for id in ids])))
        taken.update(ids)
    return found


def _near(words: Mapping[str, frozenset[str]], alike: float) -> dict[str, list[tuple[float, str]]]:
    """What is like what."""
    near: dict[str, list[tuple[float, str]]] = {id: [] for id in words}
    ids = sorted(words)
    for place, one in enumerate(ids):
        for other in ids[place + 1 :]:
            if (likeness := jaccard(words[one], words[other])) >= alike:
                near[one].append((likeness, other))
                near[other].append((likeness, one))
    return near


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of all their words that both have."""
    both = len(one & other)
    return both / (len(one) + len(other) - both) if both else 0.0


def _shared(texts: Sequence[frozenset[str]]) -> tuple[str, ...]:
    counts = Counter(word for text in texts for word in text)
    often = [word for word, count in counts.items() if count * 2 > len(texts)]
    return tuple(sorted(often, key=lambda word: (-counts[word], word))[:TOLD_WORDS])
