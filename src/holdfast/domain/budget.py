"""Fitting what was found into a budget of tokens."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from . import tokens

T = TypeVar("T")


class Packed(NamedTuple):
    kept: list[object]
    tokens: int
    dropped: int
    overflow: bool
    """What is given at least is larger than the budget: what comes before the hits, and the first of them."""
    estimated: bool = False
    """Nobody asked for a budget: the tokens are a guess from the characters."""


def estimate(text: str) -> int:
    """Tokens of a text, guessed where nobody gave a budget: a token is about four bytes of UTF-8."""
    return (len(text.encode()) + 3) // 4


def fill(
    items: Iterable[T], rendered: Callable[[T], str], budget: int | None, *, frame: str = "", before: str = ""
) -> tuple[list[T], Packed]:
    """Fill a budget with whole hits, each as it is sent, in the given order; `frame` is sent around them, and `before`
    whatever is found.

    Tokens are those of cl100k. What is too large is counted no further than the room that is left, and where no room
    is left nothing is rendered.
    """
    if budget is None:
        kept, packed = pack(items, lambda item: estimate(rendered(item)), None)
        return kept, packed._replace(tokens=packed.tokens + estimate(frame) + estimate(before), estimated=True)

    def cost(item: T, room: int | None) -> int:
        return 1 if room is not None and room < 1 else tokens.count(rendered(item), room)

    return _filled(items, cost, budget, tokens.count(before), tokens.count(frame))


def pack(items: Iterable[T], size: Callable[[T], int], budget: int | None) -> tuple[list[T], Packed]:
    """Fill greedily in the given order, skipping what does not fit; at least one, unless the budget is 0."""
    return _filled(items, lambda item, _: size(item), budget)


def _filled(
    items: Iterable[T], cost: Callable[[T, int | None], int], budget: int | None, before: int = 0, frame: int = 0
) -> tuple[list[T], Packed]:
    """`cost` is told the room there is, or None for what is taken whatever it costs."""
    kept: list[T] = []
    used = before + frame
    dropped = 0
    for item in items:
        room = None if budget is None or (not kept and budget > 0) else budget - used
        costs = cost(item, room)
        if budget == 0 or (room is not None and costs > room):
            dropped += 1
        else:
            kept.append(item)
            used += costs
    used = used if kept else before
    return kept, Packed(list(kept), used, dropped, budget is not None and used > budget)
