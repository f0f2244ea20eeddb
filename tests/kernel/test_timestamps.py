"""Timestamps: integers in code, RFC 3339 on the wire."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.context import read_clock
from holdfast.kernel.errors import Invalid
from holdfast.kernel.timestamps import format_timestamp, parse_timestamp

FIRST = -62_135_596_800_000_000
LAST = 253_402_300_799_999_999
OFFSETS = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.integers(FIRST, LAST))
def test_a_timestamp_survives_formatting_and_parsing(moment: int) -> None:
    assert parse_timestamp(format_timestamp(moment), "at") == moment


@given(st.datetimes(timezones=OFFSETS))
def test_a_time_with_any_offset_is_a_formattable_timestamp_or_refused(at: datetime) -> None:
    try:
        moment = parse_timestamp(at.isoformat(), "at")
    except Invalid:
        assert at.year in (1, 9999)
        return
    assert datetime.fromisoformat(format_timestamp(moment)) == at


@given(st.lists(st.integers(FIRST, LAST), min_size=2))
def test_formatted_timestamps_sort_chronologically(moments: list[int]) -> None:
    assert [format_timestamp(moment) for moment in sorted(moments)] == sorted(
        format_timestamp(moment) for moment in moments
    )


@given(st.integers(LAST + 1, 2**63 - 1) | st.integers(-(2**63), FIRST - 1))
def test_an_unformattable_timestamp_is_shown_as_the_nearest_formattable_one(moment: int) -> None:
    assert format_timestamp(moment) == format_timestamp(LAST if moment > 0 else FIRST)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00", 0),
        ("1970-01-02", 86_400_000_000),
        (" 1970-01-01 00:00 ", 0),
        ("0001-01-01", FIRST),
        ("9999-12-31T23:59:59.999999Z", LAST),
    ],
    ids=["zulu", "microsecond", "offset", "no-zone-is-utc", "date", "blanks", "first", "last"],
)
def test_a_time_is_parsed(text: str, moment: int) -> None:
    assert parse_timestamp(text, "at") == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026",
        "2026-13-01",
        "2026-02-30",
        "2026-01-31T25:00:00Z",
        "2016-12-31T23:59:60Z",
        "10000-01-01",
        "1700000000",
        "2026-01-31T09:00:00+99:00",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+00:01",
        "2026-01-31\x00",
        "٢٠٢٦-٠١-٣١",
    ],
    ids=lambda text: ascii(text) or "empty",
)
def test_an_invalid_time_is_refused_with_the_field_name(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_timestamp(text, "since")
    assert refused.value.details == {"fields": ["since"]}
    assert refused.value.message.startswith("since: ")


def test_now_is_the_wall_clock_in_microseconds() -> None:
    before = datetime.now(UTC)
    assert abs(datetime.fromisoformat(format_timestamp(read_clock())) - before) < timedelta(minutes=1)
