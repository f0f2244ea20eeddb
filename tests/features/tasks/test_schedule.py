"""Schedules: when tasks are due, in time zones and across clock changes."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.features.tasks import schedule
from holdfast.kernel.errors import Invalid
from holdfast.kernel.timestamps import DAY, SECOND, format_timestamp, parse_timestamp

BERLIN = "Europe/Berlin"


def times(repeat: str, first: str, zone: str, many: int) -> list[str]:
    """The first occurrences of a rule in local time."""
    made = schedule.parse_schedule(repeat, zone, schedule.parse_due(first, zone))
    at, found = made.first - 1, []
    while len(found) < many and (following := schedule.next_after(made, at)) is not None:
        found.append(schedule.timestamp_to_wall(following, made.zone).isoformat(timespec="minutes"))
        at = following
    return found


def test_nine_in_the_morning_stays_nine_across_clock_changes() -> None:
    assert times("daily", "2026-03-28T09:00", BERLIN, 3) == ["2026-03-28T09:00", "2026-03-29T09:00", "2026-03-30T09:00"]
    assert times("0 9 * * *", "2026-10-24T09:00", BERLIN, 3) == [f"2026-10-{day}T09:00" for day in (24, 25, 26)]


def test_a_time_skipped_by_the_clock_runs_at_the_first_moment_after_it() -> None:
    assert times("daily", "2026-03-28T02:30", BERLIN, 3) == ["2026-03-28T02:30", "2026-03-29T03:00", "2026-03-30T02:30"]
    assert schedule.parse_due("2026-03-29T02:30", BERLIN) == parse_timestamp("2026-03-29T01:00:00Z", "due_at")


def test_an_hour_repeated_by_the_clock_counts_once() -> None:
    made = schedule.parse_schedule("daily", BERLIN, schedule.parse_due("2026-10-24T02:30", BERLIN))
    second = schedule.next_after(made, made.first)
    assert second == parse_timestamp("2026-10-25T00:30:00Z", "x")
    assert schedule.next_after(made, second) == parse_timestamp("2026-10-26T01:30:00Z", "x")
    assert times("30 2 * * *", "2026-10-24T02:30", BERLIN, 3) == [f"2026-10-{day}T02:30" for day in (24, 25, 26)]


def test_an_interval_is_elapsed_time_whatever_the_clock_shows() -> None:
    made = schedule.parse_schedule("every 24 hours", BERLIN, schedule.parse_due("2026-03-28T09:00", BERLIN))
    assert schedule.next_after(made, made.first) == made.first + DAY
    assert schedule.parse_rule("every 90 minutes") == schedule.Every(5400)
    assert schedule.parse_rule("every 15m") == schedule.Every(900)


def test_the_thirty_first_is_the_last_day_of_shorter_months_and_returns() -> None:
    days = times("monthly", "2026-01-31T08:00", BERLIN, 5)
    assert [day[5:10] for day in days] == ["01-31", "02-28", "03-31", "04-30", "05-31"]
    assert [day[5:10] for day in times("FREQ=MONTHLY;BYMONTHDAY=-1", "2028-02-01T08:00", "UTC", 2)] == [
        "02-29",
        "03-31",
    ]


def test_the_29th_of_february_is_the_28th_in_other_years() -> None:
    assert [day[:10] for day in times("yearly", "2028-02-29T08:00", "UTC", 5)] == [
        "2028-02-29",
        "2029-02-28",
        "2030-02-28",
        "2031-02-28",
        "2032-02-29",
    ]


def test_weekdays_skip_the_weekend() -> None:
    assert [day[8:10] for day in times("weekdays", "2026-11-19T07:00", "UTC", 4)] == ["19", "20", "23", "24"]


def test_a_rule_can_name_the_second_tuesday_or_the_last_friday() -> None:
    found = times("FREQ=MONTHLY;BYDAY=2TU,-1FR", "2026-11-01T10:00", "UTC", 4)
    assert [day[5:10] for day in found] == ["11-10", "11-27", "12-08", "12-25"]


def test_a_rule_can_mix_every_weekday_with_the_nth_of_a_month() -> None:
    found = times("FREQ=MONTHLY;BYDAY=1MO,SA", "2026-11-01T10:00", "UTC", 6)
    assert [day[5:10] for day in found] == ["11-02", "11-07", "11-14", "11-21", "11-28", "12-05"]


@pytest.mark.parametrize(
    "repeat", ["daily", "weekly", "monthly", "yearly", "every 1 day", "FREQ=MONTHLY;BYMONTHDAY=-1"]
)
def test_every_occurrence_keeps_the_microseconds_of_the_first(repeat: str) -> None:
    made = schedule.parse_schedule(repeat, BERLIN, parse_timestamp("2026-01-31T09:00:00.123456Z", "x"))
    following = schedule.next_after(made, made.first)
    assert schedule.next_after(made, made.first - 1) == made.first
    assert following is not None
    assert following % SECOND == 123456


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("30,31", ["01-30", "01-31", "02-28", "03-30", "03-31"]),
        ("-31", ["02-01", "03-01", "04-01", "05-01", "06-01"]),
        ("-30,15", ["01-15", "02-01", "02-15", "03-02", "03-15"]),
    ],
)
def test_a_day_that_a_month_lacks_becomes_its_nearest_one_once(days: str, expected: list[str]) -> None:
    found = times(f"FREQ=MONTHLY;BYMONTHDAY={days}", "2026-01-10T08:00", "UTC", 5)
    assert [day[5:10] for day in found] == expected


def test_every_other_week_counts_from_the_first_run() -> None:
    found = times("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH", "2026-11-19T10:00", "UTC", 4)
    assert [day[5:10] for day in found] == ["11-19", "11-30", "12-03", "12-14"]


def test_a_rule_ends_by_its_count_or_its_last_day() -> None:
    assert len(times("FREQ=DAILY;COUNT=3", "2026-11-19T10:00", "UTC", 9)) == 3
    assert len(times("FREQ=DAILY;UNTIL=20261121", "2026-11-19T10:00", "UTC", 9)) == 3
    made = schedule.parse_schedule("FREQ=DAILY;COUNT=3", "UTC", schedule.parse_due("2026-11-19T10:00", "UTC"))
    assert schedule.next_after(made, made.first + 30 * DAY) is None


def test_a_one_time_task_is_not_due_again() -> None:
    made = schedule.parse_schedule(None, "UTC", 1000)
    assert schedule.next_after(made, 999) == 1000
    assert schedule.next_after(made, 1000) is None
    assert schedule.parse_rule("once") is None


def test_after_thirty_missed_days_one_run_or_all_or_none_are_made_up() -> None:
    made = schedule.parse_schedule("daily", BERLIN, schedule.parse_due("2026-10-01T09:00", BERLIN))
    now = schedule.parse_due("2026-10-31T11:00", BERLIN)
    assert schedule.is_missed(made, made.first, now)
    following = schedule.next_due(made, made.first, now, "once")
    assert following is not None
    assert format_timestamp(following) == "2026-11-01T08:00:00.000000Z"
    assert schedule.next_due(made, made.first, now, "all") == made.first + DAY
    assert not schedule.is_missed(made, following, following + SECOND)


@pytest.mark.parametrize(
    "repeat",
    [
        "0 0 31 2 *",
        "0 0 30 2 *",
        "* * * * * *",
        "60 * * * *",
        "0 9 * *",
        "hourlyish",
        "",
        "every 0 minutes",
        "every -5m",
        "FREQ=SECONDLY",
        "FREQ=DAILY;COUNT=0",
        "FREQ=DAILY;COUNT=x",
        "FREQ=DAILY;BYDAY=MO",
        "FREQ=WEEKLY;BYDAY=2MO",
        "FREQ=MONTHLY;BYMONTHDAY=32",
        "FREQ=MONTHLY;BYMONTHDAY=0",
        "FREQ=MONTHLY;BYDAY=MO;BYMONTHDAY=3",
        "FREQ=MONTHLY;BYSETPOS=1",
        "FREQ=DAILY;UNTIL=tomorrow",
        "FREQ=DAILY;UNTIL=19990101",
        "x" * 5000,
    ],
)
def test_an_invalid_or_impossible_rule_is_refused(repeat: str) -> None:
    with pytest.raises(Invalid, match=r"^repeat: "):
        schedule.parse_schedule(repeat, "UTC", parse_timestamp("2026-11-16", "x"))


@pytest.mark.parametrize(
    "zone",
    [
        "Mars/Olympus",
        "",
        "../etc/passwd",
        "/etc/localtime",
        "a\x00b",
        "x" * 300,
        "posixrules",
        "right/UTC",
        "localtime",
    ],
)
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(Invalid, match=r"^zone: "):
        schedule.parse_zone(zone)


@pytest.mark.parametrize("text", ["tomorrow at nine", "", "2026-13-01", "99999-01-01", "2026-11-16T25:00"])
def test_an_unreadable_time_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"^due_at: "):
        schedule.parse_due(text, BERLIN)


def test_a_time_is_local_to_its_zone_unless_it_has_its_own_offset() -> None:
    assert schedule.parse_due("2026-07-01T09:00", BERLIN) == parse_timestamp("2026-07-01T07:00:00Z", "x")
    assert schedule.parse_due("2026-07-01T09:00Z", BERLIN) == parse_timestamp("2026-07-01T09:00:00Z", "x")
    assert schedule.parse_due("2026-07-01T09:00+05:00", BERLIN) == parse_timestamp("2026-07-01T04:00:00Z", "x")


def test_nothing_is_due_after_the_year_9999() -> None:
    made = schedule.parse_schedule("daily", "UTC", parse_timestamp("2026-11-16", "x"))
    assert schedule.next_after(made, parse_timestamp("9999-12-31", "x")) is None


@pytest.mark.parametrize("repeat", ["every 36526 days", "every 3000000 days", "every 999999999h"])
def test_an_interval_of_more_than_a_hundred_years_is_refused(repeat: str) -> None:
    with pytest.raises(Invalid, match=r"^repeat: .* too long"):
        schedule.parse_schedule(repeat, "UTC", parse_timestamp("2026-11-16", "x"))
    assert schedule.parse_schedule("every 36525 days", "UTC", 0).rule == schedule.Every(schedule.MAX_INTERVAL_SECONDS)


def test_an_interval_beyond_the_last_date_has_no_next_time() -> None:
    kept = schedule.Schedule(
        schedule.parse_rule("every 3000000 days"), ZoneInfo("UTC"), parse_timestamp("2020-01-01", "x")
    )
    assert schedule.next_after(kept, kept.first) is None


@pytest.mark.parametrize(
    ("text", "zone"), [("9999-12-31T23:59", "America/New_York"), ("0001-01-01T00:00", "Asia/Tokyo")]
)
def test_a_time_beyond_the_last_date_is_refused_in_any_zone(text: str, zone: str) -> None:
    with pytest.raises(Invalid, match=r"^due_at: ") as refused:
        schedule.parse_due(text, zone)
    assert refused.value.details == {"fields": ["due_at"]}


@pytest.mark.parametrize(
    ("text", "zone"), [("9999-12-31T23:59Z", "Asia/Tokyo"), ("0001-01-01T00:00Z", "America/New_York")]
)
def test_a_schedule_whose_day_a_zone_skips_is_refused(text: str, zone: str) -> None:
    with pytest.raises(Invalid, match="never comes"):
        schedule.parse_schedule("daily", zone, schedule.parse_due(text, zone))


@settings(max_examples=150, deadline=None)
@given(
    repeat=st.sampled_from(
        ["daily", "weekly", "weekdays", "monthly", "yearly", "0 9 * * *", "FREQ=MONTHLY;BYDAY=-1SU"]
    ),
    zone=st.sampled_from([BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca"]),
    first=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),
    later=st.integers(0, 2000),
)
def test_the_next_time_is_the_earliest_later_one(repeat: str, zone: str, first: datetime, later: int) -> None:
    """The next occurrence is the same from any starting point as in a full list."""
    made = schedule.parse_schedule(repeat, zone, schedule.wall_to_timestamp(first, ZoneInfo(zone)))
    asked = made.first + later * DAY
    at: int | None = made.first - 1
    while at is not None and at <= asked:
        at = schedule.next_after(made, at)
    assert schedule.next_after(made, asked) == at
    assert at is not None
    assert at > asked


@settings(max_examples=100, deadline=None)
@given(
    zone=st.sampled_from([BERLIN, "America/New_York", "Australia/Lord_Howe", "America/St_Johns"]),
    wall=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),
)
def test_a_wall_time_is_converted_exactly_or_to_the_first_moment_after_a_gap(zone: str, wall: datetime) -> None:
    at = schedule.wall_to_timestamp(wall, ZoneInfo(zone))
    seen = schedule.timestamp_to_wall(at, ZoneInfo(zone))
    assert seen == wall or (
        timedelta() < seen - wall <= timedelta(hours=1) and schedule.timestamp_to_wall(at - 1, ZoneInfo(zone)) < wall
    )
