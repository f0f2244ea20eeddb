"""Sharing a budget among parts: each gets its least first, then more in their order, up to its most.

What is left then is for parts that would have nothing: each gets its first item, if that fits.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """What wants room: the sizes of its items, the most wanted first, and its shares of the whole."""

    name: str
    sizes: Sequence[int]
    least: float
    most: float


def portions(parts: Sequence[Part], budget: int) -> dict[str, int]:
    """How many items of each part fit, from its first one on; none is left out that a later one takes the room of."""
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
