"""Plan full-text queries that stay fast with a million memories.

Rare words are looked up everywhere. A very common word is left out if there are two rarer ones; otherwise it is looked
up among the newest memories, or among all if those give too few hits.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.features.memories.store import Filter, Found, matching
from holdfast.kernel.caller import Caller
from holdfast.kernel.storage import fts_tokens as tokens
from holdfast.kernel.storage.port import Session

ROW_BUDGET = 5000
"""About this many rows are ranked for a query by keywords alone. In a store of up to twice as many rows, counting words
costs more than it saves, so every word is looked up."""
BESIDE_VECTORS = 0.3
"""Share of the budget when vectors are searched too: they find most of what only common words would find."""


class Question(NamedTuple):
    """The words to look up in the index."""

    rare: tuple[str, ...]
    common: tuple[str, ...] = ()
    since_row: int = 0
    """From this row on, about as many rows as the budget contain the common words."""
    held: Mapping[str, int] = {}
    """Number of memories that contain each stem, if counted."""


def question(
    session: Session, words: Sequence[str], last: int | None = None, *, beside_vectors: bool = False
) -> Question:
    """Choose the words to look up, rarest first. `last` is the newest row, if known."""
    last = session.newest_row() if last is None else last
    if last <= 2 * ROW_BUDGET:
        return Question(tuple(words))
    budget = int(ROW_BUDGET * BESIDE_VECTORS) if beside_vectors else ROW_BUDGET
    stems = {word: tokens.stems(word) for word in words}
    held_by = session.holding([stem for many in stems.values() for stem in many], last)
    held = {word: min((held_by.get(stem, 0) for stem in many), default=0) for word, many in stems.items()}
    rarest = sorted((word for word in words if held[word]), key=held.__getitem__)
    rare = rarest[: _fitting([held[word] for word in rarest], budget)]
    common = rarest[len(rare) : 2]
    share = budget / max(budget, sum(held[word] for word in common))
    return Question(tuple(rare), tuple(common), int(last * (1 - share)), held_by)


def _fitting(counts: Iterable[int], budget: int) -> int:
    """Count how many leading items fit into the budget together."""
    total = number = 0
    for count in counts:
        total += count
        if total > budget:
            break
        number += 1
    return number


def candidates(
    session: Session, caller: Caller, asked: Question, which: Filter, now: int, *, limit: int
) -> list[Found]:
    """Find memories with any of the planned words, best first. Filters apply before the limit."""
    found = matching(session, caller, asked.rare, which, now, limit=limit) if asked.rare else []
    if not asked.common:
        return found
    words = (*asked.rare, *asked.common)
    newest = matching(session, caller, words, which, now, limit=limit, since_row=asked.since_row)
    found = _best_of(found, newest)[:limit]
    if len(found) == limit or not asked.since_row:
        return found
    return matching(session, caller, words, which, now, limit=limit)


def _best_of(*many: list[Found]) -> list[Found]:
    """Merge hits, each once with its best score."""
    hits = sorted((hit for found in many for hit in found), key=lambda hit: -hit.score)
    return list({hit.id: hit for hit in reversed(hits)}.values())[::-1]
