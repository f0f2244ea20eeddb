"""Dates in queries, and how well a time fits them."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.recall.dates import (
    MAX_PERIODS,
    MAX_TIME,
    MIN_TIME,
    Event,
    Period,
    find_events,
    find_periods,
    score_event_side,
    score_periods,
)
from holdfast.kernel.timestamps import DAY, format_timestamp, parse_timestamp

NOW = parse_timestamp("2023-05-24T15:00:00Z", "now")
"""A Wednesday."""


def at(text: str) -> int:
    return parse_timestamp(text, "at")


def days(text: str, now: int = NOW) -> list[tuple[str, str]]:
    """Return the first and last day of each period."""
    return [
        (format_timestamp(period.start)[:10], format_timestamp(period.end)[:10]) for period in find_periods(text, now)
    ]


def fit(text: str, day: str, now: int = NOW) -> float:
    return round(score_periods(find_periods(text, now), at(day)), 3)


MAY_8 = ("2023-05-08", "2023-05-08")
MAY = ("2023-05-01", "2023-05-31")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What happened on 8 May 2023?", [MAY_8]),
        ("on 8 May, 2023", [MAY_8]),
        ("on the 8th of May 2023", [MAY_8]),
        ("on May 8, 2023", [MAY_8]),
        ("on May 8th 2023", [MAY_8]),
        ("on may 8,2023", [MAY_8]),
        ("since 2023-05-08T10:00:00Z", [("2023-05-08", "9999-12-31")]),
        ("2023/5/8", [MAY_8]),
        ("18/05/2023 and 05/18/2023", [("2023-05-18", "2023-05-18")] * 2),
        ("05/05/2023", [("2023-05-05", "2023-05-05")]),
        ("8.5.2023", [MAY_8]),
        ("2023年5月8日に", [MAY_8]),
        ("2023年5月", [MAY]),
        ("in May 2023", [MAY]),
        ("in may of 2023", [MAY]),
        ("2023-05", [MAY]),
        ("in Sept. 2022", [("2022-09-01", "2022-09-30")]),
        ("in 2022", [("2022-01-01", "2022-12-31")]),
        ("in the summer of 2021", [("2021-06-01", "2021-08-31")]),
        ("winter 2023", [("2023-12-01", "2024-02-29")]),
        ("February 30, 2023", [("2023-02-01", "2023-02-28")]),
        ("29 February 2024", [("2024-02-29", "2024-02-29")]),
        ("between August 11 and August 15 2022", [("2022-08-11", "2022-08-15")]),
        ("from May to July 2022", [("2022-05-01", "2022-07-31")]),
        ("in June and July 2022", [("2022-06-01", "2022-06-30"), ("2022-07-01", "2022-07-31")]),
        ("between 2019 and 2021", [("2019-01-01", "2021-12-31")]),
        ("from November to February 2023", [("2022-11-01", "2023-02-28")]),
        ("from June to February", [("2022-06-01", "2023-02-28")]),
        ("from March to December", [("2022-03-01", "2022-12-31")]),
        ("before 2020", [("0001-01-01", "2019-12-31")]),
        ("by 8 May 2023", [("0001-01-01", "2023-05-08")]),
        ("prior to 8 May 2023", [("0001-01-01", "2023-05-07")]),
        ("after May 2023", [("2023-06-01", "9999-12-31")]),
        ("the week before 8 May 2023", [MAY_8]),
    ],
    ids=str,
)
def test_a_date_is_parsed_as_written(text: str, expected: list[tuple[str, str]]) -> None:
    assert days(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in May", MAY),
        ("in June", ("2022-06-01", "2022-06-30")),
        ("in october", ("2022-10-01", "2022-10-31")),
        ("in Dec", ("2022-12-01", "2022-12-31")),
        ("on Aug 15th", ("2022-08-15", "2022-08-15")),
        ("on the 1st of June", ("2022-06-01", "2022-06-01")),
    ],
    ids=str,
)
def test_a_date_without_a_year_is_the_latest_one_and_matches_every_year(text: str, expected: tuple[str, str]) -> None:
    [period] = find_periods(text, NOW)
    assert (days(text), period.form) == ([expected], "every year")
    years = [fit(text, expected[0]), fit(text, expected[0].replace("2022", "2019").replace("2023", "2019"))]
    assert years in ([1.0, 1.0], [1.5, 1.5])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in June last year", ("2022-06-01", "2022-06-30")),
        ("this year in March", ("2023-03-01", "2023-03-31")),
        ("last May", ("2022-05-01", "2022-05-31")),
        ("this May", MAY),
        ("last June", ("2022-06-01", "2022-06-30")),
        ("What did I do in 2021, in August?", ("2021-08-01", "2021-08-31")),
    ],
    ids=str,
)
def test_a_month_takes_a_year_mentioned_elsewhere(text: str, expected: tuple[str, str]) -> None:
    assert days(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "May I ask something?",
        "What may happen?",
        "They march on; is it 8 may be?",
        "an august company",
        "What did Jan say to Mar?",
        "05/08/2023",
        "5.18.2023",
        "version 1.2.2023.4",
        "$2000 #1999 2010% 1987.5 12:2010",
        "2023-99-99",
        "How many days ago did I buy it?",
        "before the release",
        "next week",
        "on Fridays",
        "my last trip",
        "",
    ],
    ids=str,
)
def test_lookalikes_are_not_dates(text: str) -> None:
    assert find_periods(text, NOW) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("today", ("2023-05-24", "2023-05-24")),
        ("tonight", ("2023-05-24", "2023-05-24")),
        ("yesterday", ("2023-05-23", "2023-05-23")),
        ("the day before yesterday", ("2023-05-22", "2023-05-22")),
        ("last night", ("2023-05-23", "2023-05-24")),
        ("last Friday", ("2023-05-19", "2023-05-19")),
        ("on Wednesday", ("2023-05-17", "2023-05-17")),
        ("last week", ("2023-05-15", "2023-05-21")),
        ("this week", ("2023-05-22", "2023-05-28")),
        ("last weekend", ("2023-05-20", "2023-05-21")),
        ("last month", ("2023-04-01", "2023-04-30")),
        ("this month", MAY),
        ("last year", ("2022-01-01", "2022-12-31")),
        ("this year", ("2023-01-01", "2023-12-31")),
        ("last summer", ("2022-06-01", "2022-08-31")),
        ("last winter", ("2022-12-01", "2023-02-28")),
        ("this spring", ("2023-03-01", "2023-05-31")),
        ("last spring", ("2022-03-01", "2022-05-31")),
        ("two days ago", ("2023-05-22", "2023-05-22")),
        ("3 weeks ago", ("2023-04-30", "2023-05-06")),
        ("a couple of weeks ago", ("2023-05-07", "2023-05-13")),
        ("a month ago", ("2023-04-09", "2023-05-09")),
        ("a few years ago", ("2019-11-24", "2020-11-22")),
        ("in the last 10 days", ("2023-05-14", "2023-05-24")),
        ("over the past two weeks", ("2023-05-10", "2023-05-24")),
        ("in the last month", ("2023-04-24", "2023-05-24")),
        ("the past year", ("2022-05-24", "2023-05-24")),
        ("the other day", ("2023-05-17", "2023-05-23")),
        ("recently", ("2023-04-24", "2023-05-24")),
    ],
    ids=str,
)
def test_a_relative_time_is_counted_back_from_now(text: str, expected: tuple[str, str]) -> None:
    [period] = find_periods(f"What did I do {text}?", NOW)
    assert (days(f"What did I do {text}?"), period.form) == ([expected], "counted")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("before yesterday", ("0001-01-01", "2023-05-22")),
        ("before last week", ("0001-01-01", "2023-05-14")),
        ("after last week", ("2023-05-22", "9999-12-31")),
        ("since last week", ("2023-05-15", "9999-12-31")),
        ("since Monday", ("2023-05-22", "9999-12-31")),
        ("before Tuesday", ("0001-01-01", "2023-05-22")),
        ("until Tuesday", ("0001-01-01", "2023-05-23")),
        ("since three weeks ago", ("2023-04-30", "9999-12-31")),
    ],
    ids=str,
)
def test_before_and_after_apply_to_relative_times(text: str, expected: tuple[str, str]) -> None:
    assert days(f"What did I do {text}?") == [expected]


def test_a_period_has_its_words() -> None:
    assert [period.text for period in find_periods("Was it last week, or yesterday?", NOW)] == [
        "last week",
        "yesterday",
    ]
    assert [period.text for period in find_periods("since 8 May 2023", NOW)] == ["since 8 May 2023"]


def test_a_relative_time_is_ignored_beside_a_full_date() -> None:
    assert days("What did I do last week, as I said on 8 May 2023?") == [MAY_8]
    assert days("What did I buy last week for 2000 crowns?") == [
        ("2023-05-15", "2023-05-21"),
        ("2000-01-01", "2000-12-31"),
    ]


def test_a_leap_day_without_a_year_is_in_a_leap_year() -> None:
    assert days("on 29 February") == [("2020-02-29", "2020-02-29")]
    assert [fit("on 29 February", day) for day in ("2024-02-29", "2024-02-28", "2023-02-28")] == [1.5, 0.4, 1.5]


def test_months_end_on_their_last_day() -> None:
    assert days("last month", at("2024-03-31")) == [("2024-02-01", "2024-02-29")]
    assert days("a year ago", at("2024-02-29")) == [("2022-08-30", "2023-08-29")]
    assert days("last month", at("2023-01-01")) == [("2022-12-01", "2022-12-31")]


@pytest.mark.parametrize("now", [MIN_TIME, MAX_TIME, MIN_TIME - DAY, MAX_TIME + DAY, -(1 << 62), 1 << 62], ids=str)
@pytest.mark.parametrize(
    "text", ["9999 years ago", "9999 weeks ago", "last year", "last winter", "last May", "in May", "this week"]
)
def test_periods_stay_within_the_years_1_to_9999(text: str, now: int) -> None:
    assert all(MIN_TIME <= period.start <= period.end <= MAX_TIME for period in find_periods(text, now))


@pytest.mark.parametrize(
    ("text", "day", "expected"),
    [
        ("in 2023", "2023-08-01", 0.3),
        ("in 2023", "2022-12-31", 0.0),
        ("in May 2023", "2023-05-31", 1.0),
        ("in May 2023", "2023-06-30", 0.3),
        ("in May 2023", "2023-07-01", 0.0),
        ("in May 2023", "2023-04-30", 0.0),
        ("in May 2023", "2022-05-08", 0.0),
        ("in December 2022", "2023-01-31", 0.3),
        ("in December 2022", "2022-01-31", 0.0),
        ("in December", "2023-01-31", 0.3),
        ("on 8 May 2023", "2023-05-08T23:59:59.999999Z", 1.5),
        ("on 8 May 2023", "2023-05-09", 1.0),
        ("on 8 May 2023", "2023-05-15", 1.0),
        ("on 8 May 2023", "2023-05-16", 0.4),
        ("on 8 May 2023", "2023-05-07", 0.4),
        ("on 28 May 2023", "2023-06-04", 0.6),
        ("on 28 May 2023", "2023-06-05", 0.2),
        ("on 28 May 2023", "2023-07-01", 0.0),
        ("on 28 December", "2020-01-02", 0.6),
        ("from 8 to 12 May 2023", "2023-05-12", 1.5),
        ("between 8 May 2023 and 12 June 2023", "2023-05-20", 1.5),
        ("between 8 May 2023 and 12 June 2023", "2023-05-02", 0.4),
        ("before 8 May 2023", "2020-01-01", 0.3),
        ("before 8 May 2023", "2023-05-07", 0.967),
        ("before 8 May 2023", "2023-05-08", 0.15),
        ("before 8 May 2023", "2023-06-08", 0.0),
        ("until 8 May 2023", "2023-05-08", 0.967),
        ("after 8 May 2023", "2023-05-07", 0.0),
        ("after April", "2023-04-10", 0.0),
        ("since 8 May 2023", "2023-05-08", 1.0),
        ("since 8 May 2023", "2024-01-01", 0.3),
        ("since 8 May 2023", "2020-01-01", 0.0),
        ("after 2022", "2022-05-01", 0.0),
        ("after 2022", "2023-05-01", 0.3),
    ],
    ids=str,
)
def test_a_day_matches_a_named_date(text: str, day: str, expected: float) -> None:
    assert fit(text, day) == expected


@pytest.mark.parametrize(
    ("text", "day", "expected"),
    [
        ("yesterday", "2023-05-23T12:00:00Z", 1.0),
        ("yesterday", "2023-05-22T12:00:00Z", 0.5),
        ("yesterday", "2023-05-21T12:00:00Z", 0.0),
        ("yesterday", "2023-05-24T06:00:00Z", 0.75),
        ("last week", "2023-05-14", 0.75),
        ("last week", "2023-05-18", 1.0),
        ("last week", "2023-05-24", 0.5),
        ("last month", "2023-05-08", 0.5),
        ("three weeks ago", "2023-04-29", 0.75),
        ("last month", "2023-04-15", 1.0),
        ("last month", "2023-03-27", 0.5),
        ("last month", "2023-02-27", 0.0),
        ("last year", "2022-05-01", 0.3),
        ("two years ago", "2023-05-01", 0.0),
        ("recently", "2023-05-20", 0.3),
        ("recently", "2023-01-01", 0.0),
    ],
    ids=str,
)
def test_a_day_matches_a_relative_time_gradually(text: str, day: str, expected: float) -> None:
    assert fit(text, day) == pytest.approx(expected, abs=0.001)


def test_the_best_of_several_periods_counts() -> None:
    assert fit("in May 2023 or in July 2021", "2021-07-05") == 1.0


def test_nothing_matches_without_a_period_or_a_time() -> None:
    assert score_periods(find_periods("in May", NOW), None) == score_periods((), NOW) == 0.0


WORDS = st.sampled_from(
    """May june 8 8th 31 2023 2023-05-08 29 February last this past week weekend month year summer on Friday yesterday
    ago a two few couple of 9999 days weeks years before after since by between and to from - / , . recently in the 年
    """.split()
)
TEXTS = st.text() | st.lists(WORDS, max_size=12).map(" ".join)
MOMENTS = st.integers(MIN_TIME, MAX_TIME)


@given(TEXTS, st.integers(), st.none() | st.integers())
def test_every_period_in_any_text_ends_after_its_start(text: str, now: int, when: int | None) -> None:
    found = find_periods(text, now)
    assert len(found) <= MAX_PERIODS
    assert all(MIN_TIME <= period.start <= period.end <= MAX_TIME and period.text in text for period in found)
    assert 0.0 <= score_periods(found, when) <= 1.0


@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)), MOMENTS, MOMENTS, MOMENTS)
def test_a_named_date_matches_independently_of_now(day: date, now: int, later: int, when: int) -> None:
    for text in (f"on {day:%d %B %Y}", f"in {day:%B}", f"in {day:%B %Y}", f"on {day:%B} {day.day}", f"in {day.year}"):
        assert score_periods(find_periods(text, now), when) == score_periods(find_periods(text, later), when)


@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)))
def test_every_order_of_day_month_and_year_is_the_same_day(day: date) -> None:
    written = {days(form)[0] for form in (f"{day:%Y-%m-%d}", f"{day:%d %B %Y}", f"{day:%b %d, %Y}", f"{day:%d.%m.%Y}")}
    assert written == {(str(day), str(day))}


@given(st.integers(0, 40), MOMENTS)
def test_days_are_counted_back_one_by_one(count: int, now: int) -> None:
    today = max(date(1, 1, 1) + timedelta(count), date.fromisoformat(format_timestamp(now)[:10]))
    noon = at(f"{today}T12:00:00Z")
    assert days(f"{count} days ago", noon) == [(str(today - timedelta(count)),) * 2]


@given(st.sampled_from(["yesterday", "last week", "a month ago", "last year", "recently"]), MOMENTS, MOMENTS)
def test_relative_times_move_with_now(text: str, now: int, when: int) -> None:
    [period] = find_periods(text, now)
    assert period.start <= max(now, MIN_TIME)
    assert score_periods([period], when) <= score_periods([period], period.start)


def test_only_the_first_part_of_a_long_query_is_searched_for_dates() -> None:
    assert len(find_periods("may 8th " * 100_000, NOW)) == MAX_PERIODS
    assert find_periods("x" * 5000 + " 8 May 2023", NOW) == ()


def test_a_period_has_a_precision() -> None:
    [period] = find_periods("on 8 May 2023", NOW)
    assert period == Period(at("2023-05-08"), at("2023-05-09") - 1, "day", "8 May 2023")


# Events


@pytest.mark.parametrize(
    ("text", "side", "name"),
    [
        ("What changed since the migration to Postgres?", "after", "migration"),
        ("what broke after our 2.0 release", "after", "2 0 release"),
        ("What did Ann do before Ada's wedding?", "before", "wedding"),
        ("Prior to the big launch party, who had said no?", "before", "big launch party"),
        ("Who slept badly until the exam was over?", "before", "exam"),
        ("after his 'Half Marathon' did he rest?", "after", "half marathon"),
    ],
)
def test_a_named_event_is_found_in_a_query(text: str, side: str, name: str) -> None:
    assert find_events(text) == (Event("before" if side == "before" else "after", tuple(name.split())),)


@pytest.mark.parametrize(
    "text",
    [
        "How many days before the wedding did it rain?",
        "What happened the week after the move?",
        "Who looked after the parents?",
        "until the end of the story",
        "after the 5th of May",
        "since the 2000",
        "before breakfast",
        "after the",
        "What did he say?",
    ],
)
def test_phrases_that_name_no_event_are_ignored(text: str) -> None:
    assert find_events(text) == ()


@given(st.lists(MOMENTS, max_size=9), MOMENTS, MOMENTS)
def test_a_later_time_scores_higher_after_an_event_and_lower_before_it(told: list[int], one: int, other: int) -> None:
    before, after = Event("before", ("move",)), Event("after", ("move",))
    early, late = sorted((one, other))
    assert 0 <= score_event_side(after, told, early) <= score_event_side(after, told, late) <= 0.3
    assert 0 <= score_event_side(before, told, late) <= score_event_side(before, told, early) <= 0.3
    if told:
        assert (
            score_event_side(after, told, max(told)) == score_event_side(before, told, min(told)) == pytest.approx(0.3)
        )
    else:
        assert score_event_side(after, told, late) == 0


@given(st.text(max_size=300))
def test_events_of_any_text_have_words_and_are_limited_in_number(text: str) -> None:
    found = find_events(f"after the {text} before my {text}")
    assert all(event.words for event in found)
    assert len(find_events("after the move, " * 10_000)) == MAX_PERIODS
