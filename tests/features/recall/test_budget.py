"""A token budget is filled greedily and in order, with hits as sent."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.recall.service import PackResult, estimate_tokens, fill_budget, pack_items
from holdfast.kernel.text import token_count as tokens

SIZES = st.lists(st.integers(0, 50), max_size=20)


def pack_sizes(sizes: list[int], budget: int | None) -> tuple[list[int], PackResult]:
    return pack_items(sizes, lambda size: size, budget)


def test_hits_that_do_not_fit_are_skipped_and_smaller_ones_are_added() -> None:
    kept, result = pack_sizes([4, 9, 3, 3], 10)
    assert kept == [4, 3, 3]
    assert (result.tokens, result.dropped, result.overflow) == (10, 1, False)


def test_the_first_hit_is_returned_even_if_over_budget_and_reported() -> None:
    kept, result = pack_sizes([25, 5], 10)
    assert kept == [25]
    assert (result.tokens, result.dropped, result.overflow) == (25, 1, True)


def test_a_zero_budget_returns_nothing() -> None:
    kept, result = pack_sizes([1, 2], 0)
    assert kept == []
    assert (result.tokens, result.dropped, result.overflow) == (0, 2, False)


def test_without_a_budget_everything_is_returned() -> None:
    kept, result = pack_sizes([1, 200, 3], None)
    assert kept == [1, 200, 3]
    assert (result.tokens, result.dropped, result.overflow) == (204, 0, False)


@given(SIZES, st.integers(1, 100))
def test_the_budget_is_exceeded_only_by_a_single_first_hit(sizes: list[int], budget: int) -> None:
    kept, result = pack_sizes(sizes, budget)
    assert bool(kept) == bool(sizes)
    assert result.tokens == sum(kept)
    assert result.tokens <= budget or (result.overflow and kept[0] == sizes[0] > budget)
    assert len(kept) + result.dropped == len(sizes)


@given(SIZES, st.integers(0, 100))
def test_hits_stay_in_order_and_none_that_fits_is_left_out(sizes: list[int], budget: int) -> None:
    kept, result = pack_sizes(sizes, budget)
    rest = iter(sizes)
    assert all(size in rest for size in kept)
    if not result.overflow and budget:
        left = sorted(sizes)
        for size in kept:
            left.remove(size)
        assert all(result.tokens + size > budget for size in left)


@given(st.lists(st.text(max_size=80), max_size=12), st.integers(0, 60), st.text(max_size=20))
def test_a_hit_costs_all_tokens_sent_for_it(texts: list[str], budget: int, frame: str) -> None:
    kept, result = fill_budget(texts, lambda text: f"- {text}\n", budget, frame=frame)
    costs = [tokens.count_tokens(f"- {text}\n") for text in kept]
    assert result.tokens == (sum(costs) + tokens.count_tokens(frame) if kept else 0)
    assert result.tokens <= budget or (result.overflow and len(kept) == 1)
    assert (bool(kept), len(kept) + result.dropped) == (bool(texts) and budget > 0, len(texts))
    assert not result.estimated


def test_a_hit_that_cannot_fit_is_not_rendered() -> None:
    rendered = []

    def render(text: str) -> str:
        rendered.append(text)
        return text

    kept, result = fill_budget(["one two", *(f"more {number}" for number in range(50))], render, 2)
    assert (kept, result.tokens, result.dropped, rendered) == (["one two"], 2, 50, ["one two"])


def test_without_a_budget_the_tokens_are_marked_as_estimated() -> None:
    kept, result = fill_budget(["four", "fives"], str, None, frame="{}")
    assert kept == ["four", "fives"]
    assert (result.tokens, result.dropped, result.overflow, result.estimated) == (
        estimate_tokens("four") + estimate_tokens("fives") + estimate_tokens("{}"), 0, False, True,
    )  # fmt: skip
    assert fill_budget([], str, None)[1].tokens == estimate_tokens("") == 0
