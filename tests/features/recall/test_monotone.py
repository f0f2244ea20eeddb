"""Isotonic regression: the non-decreasing curve nearest to some points."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.recall.features import fit_monotone

POINTS = st.lists(st.tuples(st.integers(1, 20).map(float), st.floats(0, 1, width=32)), max_size=12)
GRID = [place / 4 for place in range(100)]


def test_non_decreasing_points_are_on_the_curve_with_straight_lines_between() -> None:
    curve = fit_monotone([(4.0, 0.8), (1.0, 0.2), (2.0, 0.2)])
    assert [curve.at(x) for x in (0, 0.5, 1, 2, 3, 4, 9)] == pytest.approx([0, 0.1, 0.2, 0.2, 0.5, 0.8, 0.8])


def test_decreasing_neighbours_share_their_mean() -> None:
    curve = fit_monotone([(1.0, 0.9), (2.0, 0.1), (3.0, 0.5), (4.0, 0.7)])
    assert [curve.at(x) for x in (1, 1.5, 2, 3, 4)] == pytest.approx([0.5, 0.5, 0.5, 0.5, 0.7])


def test_points_at_the_same_position_share_their_mean() -> None:
    assert fit_monotone([(2.0, 0.2), (2.0, 0.6), (1.0, 0.3)]).at(2) == pytest.approx(0.4)


def test_without_points_the_curve_is_zero() -> None:
    assert [fit_monotone([]).at(x) for x in (0, 1)] == [0, 0]


@given(POINTS, st.randoms())
def test_the_curve_never_decreases_and_ignores_the_order_of_points(
    points: list[tuple[float, float]], random: Any
) -> None:
    curve = fit_monotone(points)
    assert all(curve.at(x) <= curve.at(y) + 1e-9 for x, y in pairwise(GRID))
    assert fit_monotone(random.sample(points, len(points))) == curve


@given(POINTS, st.lists(st.floats(0, 1, width=32), min_size=20, max_size=20))
def test_no_other_non_decreasing_curve_is_closer_to_the_points(
    points: list[tuple[float, float]], others: list[float]
) -> None:
    curve, other = fit_monotone(points), sorted(others)
    ours = sum((curve.at(x) - y) ** 2 for x, y in points)
    assert ours <= sum((other[int(x) - 1] - y) ** 2 for x, y in points) + 1e-6
