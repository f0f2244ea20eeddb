"""Allocate a budget to parts: first each part's minimum share, then more in order, up to its maximum share.

What is left goes to parts that got nothing: each gets its first item if it fits.
"""

from collections.abc import Sequence
from typing import NamedTuple


class BudgetPart(NamedTuple):
    """A part: the sizes of its items, most important first, and its minimum and maximum share of the budget."""

    name: str
    sizes: Sequence[int]
    least: float
    most: float


def allocate_budget(parts: Sequence[BudgetPart], budget: int) -> dict[str, int]:
    """Return how many leading items of each part fit. No item is skipped for a later one."""
    taken = {part.name: 0 for part in parts}
    used = {part.name: 0 for part in parts}
    for share in ("least", "most"):
        for part in parts:
            bound = int(budget * getattr(part, share))
            for size in part.sizes[taken[part.name] :]:
                if used[part.name] + size > bound or sum(used.values()) + size > budget:
                    break
                taken[part.name] += 1
                used[part.name] += size
    left = budget - sum(used.values())
    for part in parts:
        if part.most and part.sizes and not taken[part.name] and part.sizes[0] <= left:
            taken[part.name] = 1
            left -= part.sizes[0]
    return taken
