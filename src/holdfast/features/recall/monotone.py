"""Isotonic regression: the non-decreasing curve nearest to some points."""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple


class Curve(NamedTuple):
    """A non-decreasing, piecewise linear function from (0, 0) on; constant after its last knot."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]

    def at(self, x: float) -> float:
        after = bisect_left(self.xs, x)
        if after == len(self.xs):
            return self.ys[-1]
        if after == 0 or self.xs[after] == x:
            return self.ys[after]
        x0, x1, y0, y1 = *self.xs[after - 1 : after + 1], *self.ys[after - 1 : after + 1]
        return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


class _Block(NamedTuple):
    """Neighbouring points that are pooled into their mean."""

    first: float
    last: float
    total: float
    points: int

    def mean(self) -> float:
        return self.total / self.points


def fit_monotone(points: Iterable[tuple[float, float]]) -> Curve:
    """Fit a curve by least squares to points with x > 0 and y >= 0, pooling decreasing neighbours into their mean."""
    blocks: list[_Block] = []
    for x, same in groupby(sorted(points), itemgetter(0)):
        ys = [y for _, y in same]
        block = _Block(x, x, sum(ys), len(ys))
        while blocks and blocks[-1].mean() >= block.mean():
            before = blocks.pop()
            block = _Block(before.first, x, before.total + block.total, before.points + block.points)
        blocks.append(block)
    knots = [(0.0, 0.0), *((x, block.mean()) for block in blocks for x in (block.first, block.last))]
    return Curve(tuple(x for x, _ in knots), tuple(y for _, y in knots))
