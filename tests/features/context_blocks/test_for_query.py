"""The context for a query: its notes are true, and its size does not depend on chance."""

from collections.abc import Callable, Iterable
from datetime import date, timedelta
from typing import Any

import pytest

import holdfast
from holdfast.features.context_blocks import fence_text
from holdfast.features.context_blocks.for_query import FENCE_DIGITS, MAX_HITS, new_fence
from holdfast.kernel.text import token_count as tokens

QUESTION = "when do we deploy?"
FIRST = date(2024, 1, 31)


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


def said_on(ctx: Any, days: Iterable[int], namespace: str = "shop", text: str = "The deploy number") -> None:
    """Store a memory for each number of days after the first."""
    on = {day: (FIRST + timedelta(days=day)).isoformat() for day in days}
    told = [{"title": f"{namespace} {day}", "content": f"{text} {day}.", "occurred_at": on[day]} for day in on]
    done = ctx.bulk_store(memories=[one | {"namespace": namespace, "tier": "long"} for one in told])
    assert done.created == len(on)


def gaps(block: Any) -> list[str]:
    return [line for line in block.text.splitlines() if line.startswith("(nothing between")]


def test_the_frame_has_the_same_size_for_every_fence() -> None:
    fences = [new_fence() for _ in range(300)]
    assert {len(fence) for fence in fences} == {FENCE_DIGITS}
    assert {tokens.count_tokens(fence_text.add_frame([], fence)) for fence in fences} == {
        tokens.count_tokens(fence_text.add_frame([], "0" * FENCE_DIGITS))
    }


def test_a_gap_with_matches_beyond_the_limit_is_not_stated(hold: Any) -> None:
    said_on(hold, range(0, 730, 10))
    block = hold.context(QUESTION, budget=4000)
    assert (gaps(block), len(block.cited) + block.dropped, block.more) == ([], MAX_HITS, 73 - MAX_HITS)


def test_a_real_gap_is_stated_among_more_matches_than_the_limit(hold: Any) -> None:
    said_on(hold, [*range(0, 300, 10), *range(500, 730, 5)])
    block = hold.context(QUESTION, budget=4000)
    assert gaps(block) == ["(nothing between 16 November 2024 and 14 June 2025)"]


def test_memories_excluded_by_a_filter_or_a_right_close_no_gap(hold: Any, seen_by: Callable[..., Any]) -> None:
    said_on(hold, [0, 5, 725, 730])
    said_on(hold, range(10, 720, 10), "other")
    stated = ["(nothing between 5 February 2024 and 25 January 2026)"]
    assert gaps(hold.context(QUESTION, budget=4000)) == []
    assert gaps(hold.context(QUESTION, budget=4000, namespace="shop")) == stated
    assert gaps(seen_by("ai:other@here", namespaces=("shop",)).context(QUESTION, budget=4000)) == stated


def test_no_gap_is_stated_for_an_unknown_past(hold: Any, clock: Any) -> None:
    said_on(hold, [0, 730])
    assert len(gaps(hold.context(QUESTION))) == 1
    for past in ({"known_at": clock.after(days=1)}, {"as_of": clock.after(days=1)}):
        block = hold.context(QUESTION, **past)
        assert (len(block.cited), "(nothing" in block.text, block.more) == (2, False, None)


def test_no_gap_is_stated_if_the_query_names_a_time(hold: Any) -> None:
    said_on(hold, [0, 730])
    said_on(hold, range(10, 300, 10), "other", text="The market number")
    assert len(gaps(hold.context("deploy?"))) == 1
    assert "(nothing" not in hold.context("the deploy in 2024?").text
