"""Fitting what was found into a budget of tokens."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Packed(NamedTuple):
    kept: list[object]
    tokens: int
    dropped: int
    overflow: bool
    """The first hit alone is larger than the budget; it is given all the same."""


def estimate(text: str) -> int:
    """Tokens of a text, near enough for a budget: a token is about four bytes of UTF-8."""
    return (len(text.encode()) + 3) // 4


def pack(items: Iterable[T], size: Callable[[T], int], budget: int | None) -> tuple[list[T], Packed]:
    """Fill greedily in the given order, skipping what does not fit; at least one, unless the budget is 0."""
    kept: list[T] = []
    tokens = dropped = 0
    for item in items:
        cost = size(item)
        if budget is None or tokens + cost <= budget or (not kept and budget > 0):
            kept.append(item)
            tokens += cost
        else:
            dropped += 1
    return kept, Packed(list(kept), tokens, dropped, budget is not None and tokens > budget)
