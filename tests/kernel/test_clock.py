"""Hybrid logical clock."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.timestamps import MAX_FUTURE_MS, Stamp, is_too_far_ahead, max_stamp_time, tick

TIMES = st.integers(0, 1 << 62)


@given(st.integers(0, 1 << 46), st.lists(TIMES, max_size=5))
def test_a_new_time_is_after_everything_seen_and_not_before_the_wall_clock(now_ms: int, floors: list[int]) -> None:
    time = tick(now_ms, *floors)
    assert time >= now_ms << 16
    assert all(time > floor for floor in floors)


@given(st.integers(0, 1 << 46))
def test_time_advances_while_the_wall_clock_stops_or_goes_back(now_ms: int) -> None:
    first = tick(now_ms)
    second = tick(now_ms, first)
    third = tick(max(0, now_ms - 3_600_000), second)
    assert first < second < third


def test_stamps_are_ordered_by_time_and_then_by_origin() -> None:
    assert sorted([Stamp(2, "a"), Stamp(1, "b"), Stamp(1, "a")]) == [Stamp(1, "a"), Stamp(1, "b"), Stamp(2, "a")]


def test_a_stamp_more_than_seven_days_ahead_is_too_far() -> None:
    now_ms = 1_700_000_000_000
    assert not is_too_far_ahead(now_ms + MAX_FUTURE_MS << 16, now_ms)
    assert is_too_far_ahead(now_ms + MAX_FUTURE_MS + 1 << 16, now_ms)


def test_the_latest_time_is_the_last_one_that_is_not_too_far() -> None:
    now_ms = 1_700_000_000_000
    assert not is_too_far_ahead(max_stamp_time(now_ms), now_ms)
    assert is_too_far_ahead(max_stamp_time(now_ms) + 1, now_ms)
