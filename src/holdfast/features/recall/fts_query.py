"""Plan full-text queries that stay fast with a million memories.

Rare words are looked up everywhere. A very common word is left out if there are two rarer ones; otherwise it is looked
up among the newest memories, or among all if those give too few hits.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.features.memories.store import Filter, FullTextHit, search_words
from holdfast.kernel.context import Caller
from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.port import Session

ROW_BUDGET = 5000
"""About this many rows are ranked for a query by keywords alone. In a store of up to twice as many rows, counting words
costs more than it saves, so every word is looked up."""
VECTOR_BUDGET_SHARE = 0.3
"""Share of the budget when vectors are searched too: they find most of what only common words would find."""


class FtsPlan(NamedTuple):
    """The words to look up in the index."""

    rare: tuple[str, ...]
    common: tuple[str, ...] = ()
    since_row: int = 0
    """From this row on, about as many rows as the budget contain the common words."""
    document_counts: Mapping[str, int] = {}
    """Number of memories that contain each stem, if counted."""


def plan_query(
    session: Session, words: Sequence[str], last_row: int | None = None, *, beside_vectors: bool = False
) -> FtsPlan:
    """Choose the words to look up, rarest first. `last_row` is the newest row, if known."""
    last_row = session.newest_row() if last_row is None else last_row
    if last_row <= 2 * ROW_BUDGET:
        return FtsPlan(tuple(words))
    budget = int(ROW_BUDGET * VECTOR_BUDGET_SHARE) if beside_vectors else ROW_BUDGET
    stems = {word: index_terms.stems(word) for word in words}
    held_by = session.document_frequencies([stem for many in stems.values() for stem in many], last_row)
    counts = {word: min((held_by.get(stem, 0) for stem in many), default=0) for word, many in stems.items()}
    rarest = sorted((word for word in words if counts[word]), key=counts.__getitem__)
    rare = rarest[: _count_fitting([counts[word] for word in rarest], budget)]
    common = rarest[len(rare) : 2]
    share = budget / max(budget, sum(counts[word] for word in common))
    return FtsPlan(tuple(rare), tuple(common), int(last_row * (1 - share)), held_by)


def _count_fitting(counts: Iterable[int], budget: int) -> int:
    """Count how many leading items fit into the budget together."""
    total = number = 0
    for count in counts:
        total += count
        if total > budget:
            break
        number += 1
    return number


def find_matches(
    session: Session, caller: Caller, plan: FtsPlan, which: Filter, now: int, *, limit: int
) -> list[FullTextHit]:
    """Find memories with any of the planned words, best first. Filters apply before the limit."""
    found = search_words(session, caller, plan.rare, which, now, limit=limit) if plan.rare else []
    if not plan.common:
        return found
    words = (*plan.rare, *plan.common)
    newest = search_words(session, caller, words, which, now, limit=limit, since_row=plan.since_row)
    found = _merge_best(found, newest)[:limit]
    if len(found) == limit or not plan.since_row:
        return found
    return search_words(session, caller, words, which, now, limit=limit)


def _merge_best(*many: list[FullTextHit]) -> list[FullTextHit]:
    """Merge hits, each once with its best score."""
    hits = sorted((hit for found in many for hit in found), key=lambda hit: -hit.score)
    return list({hit.id: hit for hit in reversed(hits)}.values())[::-1]
