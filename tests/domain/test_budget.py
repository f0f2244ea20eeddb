"""A budget of tokens is filled greedily, in the order given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.budget import Packed, estimate, pack

SIZES = st.lists(st.integers(0, 50), max_size=20)


def packed(sizes: list[int], budget: int | None) -> tuple[list[int], Packed]:
    return pack(sizes, lambda size: size, budget)


def test_what_does_not_fit_is_skipped_and_smaller_ones_after_it_still_come() -> None:
    kept, result = packed([4, 9, 3, 3], 10)
    assert kept == [4, 3, 3]
    assert (result.tokens, result.dropped, result.overflow) == (10, 1, False)


def test_the_first_comes_even_if_it_alone_is_too_large_and_this_is_said() -> None:
    kept, result = packed([25, 5], 10)
    assert kept == [25]
    assert (result.tokens, result.dropped, result.overflow) == (25, 1, True)


def test_a_budget_of_nothing_gives_nothing() -> None:
    kept, result = packed([1, 2], 0)
    assert kept == []
    assert (result.tokens, result.dropped, result.overflow) == (0, 2, False)


def test_without_a_budget_everything_comes() -> None:
    kept, result = packed([1, 200, 3], None)
    assert kept == [1, 200, 3]
    assert (result.tokens, result.dropped, result.overflow) == (204, 0, False)


@given(SIZES, st.integers(1, 100))
def test_the_budget_holds_unless_the_first_alone_breaks_it(sizes: list[int], budget: int) -> None:
    kept, result = packed(sizes, budget)
    assert bool(kept) == bool(sizes)
    assert result.tokens == sum(kept)
    assert result.tokens <= budget or (result.overflow and kept[0] == sizes[0] > budget)
    assert len(kept) + result.dropped == len(sizes)


@given(SIZES, st.integers(0, 100))
def test_what_was_kept_keeps_its_order_and_nothing_that_would_fit_was_left_out(sizes: list[int], budget: int) -> None:
    kept, result = packed(sizes, budget)
    rest = iter(sizes)
    assert all(size in rest for size in kept)
    if not result.overflow and budget:
        left = sorted(sizes)
        for size in kept:
            left.remove(size)
        assert all(result.tokens + size > budget for size in left)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("four", 1), ("fives", 2), ("日本", 2)])
def test_a_token_is_estimated_as_four_bytes(text: str, tokens: int) -> None:
    assert estimate(text) == tokens
