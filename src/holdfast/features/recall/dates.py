"""Find the dates in a query, and score how well the time of a memory fits them.

`now`, `at` and the periods are times of the caller's clock, which may differ from UTC; days are the caller's days. The
author of a memory may have another clock, so relative periods ("yesterday") have soft edges.
"""

import re
from collections.abc import Callable, Collection, Iterable
from datetime import date
from functools import cache
from itertools import takewhile
from typing import Literal, NamedTuple

from holdfast.kernel.text.words import STOP, split_words
from holdfast.kernel.timestamps import DAY

Precision = Literal["day", "week", "month", "year", "before", "after", "recent"]
Form = Literal["named", "every year", "counted"]

MAX_READ = 4096
"""Characters of a query that are searched for dates."""

MAX_PERIODS = 16

_EPOCH = date(1970, 1, 1).toordinal()
MIN_TIME = (date.min.toordinal() - _EPOCH) * DAY
MAX_TIME = (date.max.toordinal() + 1 - _EPOCH) * DAY - 1


class Period(NamedTuple):
    """A period that a query names, from its first to its last microsecond."""

    start: int
    end: int
    precision: Precision
    text: str
    """The words of the query that name it."""
    form: Form = "named"
    """"named": with a year. "every year": without one, so the latest year is used. "counted": relative to now."""


class Event(NamedTuple):
    """An event that a query uses as a date: before it or after it."""

    side: Literal["before", "after"]
    words: tuple[str, ...]
    """The words of its name, in lower case."""


class _Span(NamedTuple):
    """From one day to another, both included."""

    first: date
    last: date
    precision: Precision


class _Date(NamedTuple):
    """A date as written, possibly incomplete, and its position in the query."""

    at: int
    end: int
    year: int | None = None
    month: int | None = None
    day: int | None = None
    months: int = 1


_MONTH_NAMES = "january february march april may june july august september october november december".split()
_MONTHS = {name[:3]: number for number, name in enumerate(_MONTH_NAMES, start=1)} | {"sept": 9}
_AMBIGUOUS_MONTHS = frozenset(("march", "may", "august"))
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_NUMBER_WORDS = {
    word: n for n, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), 1)
}
_NUMBER_WORDS |= {"a": 1, "an": 1, "couple": 2, "few": 3, "several": 4}
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_UNIT_PRECISION: dict[str, Precision] = {"day": "day", "week": "week", "month": "month", "year": "year"}

_YEAR = r"(?P<year>(?:19|20)[0-9]{2})"
_MONTH = rf"\b(?P<month>{'|'.join([*_MONTH_NAMES, *_MONTHS])})\b\.?"
_DAY = r"(?P<day>[0-3]?[0-9])(?P<ordinal>st|nd|rd|th)?"
_SEASON = rf"(?P<season>{'|'.join(_SEASONS)})\b"
_WEEKDAY = rf"(?P<weekday>{'|'.join(_WEEKDAYS)})\b"
_COUNT = rf"\b(?:a\s+)?(?P<count>[0-9]{{1,4}}|{'|'.join(_NUMBER_WORDS)})(?:\s+of)?\s+"
_UNIT = r"(?P<unit>day|week|month|year)s?\b"
_LAST_OR_THIS = r"\b(?P<which>last|previous|this(?:\s+past)?)\s+"


_DATE_PATTERNS = (
    rf"(?<![\w./-]){_YEAR}([-/])(?P<month>[01]?[0-9])(?:\2(?P<day>[0-3]?[0-9]))?(?:T[0-9:.]+Z?)?(?![\w/-])",
    rf"(?<![\w./-])(?P<first>[0-3]?[0-9])(?P<mark>[/.])(?P<second>[0-3]?[0-9])(?P=mark){_YEAR}(?![\w/-]|\.[0-9])",
    rf"{_YEAR}年(?:(?P<month>[01]?[0-9])月(?:(?P<day>[0-3]?[0-9])[日号])?)?",
    rf"(?<![\w$€£.,:/-]){_DAY}\s+(?:of\s+)?{_MONTH}(?:\s*+(?:,\s*+)?{_YEAR}\b)?",
    rf"{_MONTH}\s+(?:the\s+)?{_DAY}(?![\w:%])(?!\s*[ap]\.?m\b)(?:\s*+(?:,\s*+)?{_YEAR}\b)?",
    rf"(?:{_MONTH}|\b{_SEASON})\s*+(?:(?:,|of|in)\s*+)?{_YEAR}\b",
    rf"(?:{_LAST_OR_THIS})?{_MONTH}",
    rf"(?<![\w$€£#.,:/-]){_YEAR}(?![\w%:/-]|[.,][0-9])",
)
"""Patterns of written dates, the most complete first."""

_DATE_HINT = r"[0-9]|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_RELATIVE_HINT = r"day|night|week|month|year|spring|summer|autumn|fall|winter|morning|afternoon|evening|recently|lately"
"""Every date matches one of these. Most queries match none, so the other patterns need not be compiled."""

_OPENING = r"(?:^|[.!?])\s*\Z"
_LEADING = r"\b(?:in|since|until|by|during|of|from|last|this|before|after|early|late|mid)\s+\Z"
_NO_LENGTH = "".join(rf"(?<!{unit}\s)" for unit in "day days week weeks weekend month months year years".split())
_SIDE = (
    rf"\b{_NO_LENGTH}(?:(?P<before>before|prior\s+to|(?P<until>until|till|by|up\s+to))|after|(?P<since>since))"
    r"\s+(?:the\s+)?\Z"
)
"""Words that ask for everything before or after a date. "The week before" is only near it."""
_AFTER_SIDE = "|".join(rf"(?<=\b{word}\s)" for word in "before until after since".split())
_UP_TO = r"\s*(?:(?P<and>and)|to|until|till|through|-|–)\s*"
_BETWEEN = r"\bbetween\s+(?:the\s+)?\Z"
_YEAR_OF_NOW = r"\b(last|this)\s+year\b"


_SIDE_OF_EVENT = (
    rf"(?<!look\s)(?<!looked\s){_NO_LENGTH}(?:(?P<before>before|until|till|prior\s+to)|after|since|following)"
)
_EVENT = (
    rf"\b{_SIDE_OF_EVENT}\s+(?:the|my|our|his|her|their|its|\w+['’]s)\s+(?P<name>(?:[^.,;:!?()\n]|\.(?=[0-9])){{1,80}})"
)
_EVENT_HINT = r"\b(?:before|until|till|prior|after|since|following)\b"
_NOT_EVENTS = frozenset(_MONTH_NAMES).union(
    "day week weekend month year morning afternoon evening night end other same fact first last".split()
)
"""Words after "before the" or "after the" that are not events."""


_TIME_HINT = f"{_DATE_HINT}|{_RELATIVE_HINT}|{_EVENT_HINT}"


@cache
def compile_time_hint() -> re.Pattern[str]:
    """Compile the pattern that matches every text in which there may be a period or an event."""
    return _pattern(_TIME_HINT)


@cache
def _pattern(written: str) -> re.Pattern[str]:
    return re.compile(written, re.IGNORECASE)


def find_periods(text: str, now: int) -> tuple[Period, ...]:
    """List the periods that a query names, or else its relative ones ("last week")."""
    text, today = text[:MAX_READ], _to_date(now)
    dates = _fill_years(_find_dates(text, today), text, today)
    found = [] if any(_is_clear(known, text) for known in dates) else _find_relative(text, today)
    for first, last in _pair_ranges(dates, text):
        found += _build_period(first, last, text, today)
    return tuple(found[:MAX_PERIODS])


def find_events(text: str) -> tuple[Event, ...]:
    """List the events that a query uses as dates, such as "since the migration"."""
    text, found = text[:MAX_READ], []
    for match in _pattern(_EVENT).finditer(text) if _pattern(_EVENT_HINT).search(text) else ():
        name = tuple(takewhile(lambda word: word not in STOP, split_words(match["name"])))
        if not _NOT_EVENTS.intersection(name) and any(map(str.isalpha, name)):
            found.append(Event("before" if match["before"] else "after", name))
    return tuple(found[:MAX_PERIODS])


def score_event_side(event: Event, mention_times: Collection[int], at: int) -> float:
    """Score how surely a time is on the asked side of an event, from the times it was mentioned: 0 to 0.3.

    An event is mentioned more than once, as a plan and as a memory: the more mentions are on the other side, the surer.
    Without any mention the score is 0.
    """
    other_side = sum(at <= time if event.side == "before" else at >= time for time in mention_times)
    return _WEAK_SCORE * other_side / len(mention_times) if mention_times else 0.0


def _find_dates(text: str, today: date) -> list[_Date]:
    """List all written dates, in the order of the query."""
    found: list[_Date] = []
    for pattern in _DATE_PATTERNS if _pattern(_DATE_HINT).search(text) else ():
        for match in _pattern(pattern).finditer(text):
            if (known := _read_date(match, today)) is not None:
                found.append(known)
                text = _blank_out(text, match)
    return sorted(found)


def _blank_out(text: str, match: re.Match[str]) -> str:
    """Replace a match with underscores of the same length, so positions stay."""
    return f"{text[: match.start()]}{'_' * len(match[0])}{text[match.end() :]}"


def _read_date(match: re.Match[str], today: date) -> _Date | None:
    parts = {name: value for name, value in match.groupdict().items() if value}
    year = int(parts["year"]) if "year" in parts else None
    if "mark" in parts:
        return _read_numeric(match, int(parts["first"]), int(parts["second"]))
    if "season" in parts:
        return _Date(*match.span(), year, _SEASONS[parts["season"].lower()], None, 3)
    if "month" not in parts:
        return _Date(*match.span(), year)
    month = int(parts["month"]) if parts["month"].isdecimal() else _MONTHS[parts["month"][:3].lower()]
    if not 1 <= month <= 12 or not _is_date(match, parts):
        return None
    if "which" in parts:
        year = _latest_year(month, today if parts["which"].lower() == "this" else _shift_days(today.replace(day=1), -1))
    return _Date(*match.span(), year, month, int(parts["day"]) if "day" in parts else None)


def _read_numeric(match: re.Match[str], first: int, second: int) -> _Date | None:
    """Read a date in digits; with slashes only if day and month are unambiguous."""
    if match["mark"] == "/" and second > 12:
        first, second = second, first
    elif match["mark"] == "/" and first <= 12 and first != second:
        return None
    return _Date(*match.span(), int(match["year"]), second, first) if 1 <= second <= 12 else None


def _is_date(match: re.Match[str], parts: dict[str, str]) -> bool:
    """Whether a month name means the month: `may`, `march` and abbreviations have other meanings."""
    name, before = parts["month"], match.string[: match.start("month")]
    if parts.keys() & {"year", "ordinal", "which"} or name.isdecimal():
        return True
    if name.lower() in _AMBIGUOUS_MONTHS:
        return name[0].isupper() and ("day" in parts or not _pattern(_OPENING).search(before))
    return (
        name.lower() in _MONTH_NAMES
        or "day" in parts
        or (name[0].isupper() and bool(_pattern(_LEADING).search(before)))
    )


def _fill_years(dates: list[_Date], text: str, today: date) -> list[_Date]:
    """Give dates without a year the only year that the query names."""
    years = {known.year for known in dates if known.year and _is_clear(known, text)}
    if not years and (found := _pattern(_YEAR_OF_NOW).search(text)):
        years = {today.year - (found[1].lower() == "last")}
    if len(years) != 1 or all(known.year for known in dates):
        return dates
    return [known._replace(year=known.year or min(years)) for known in dates if known.month]


def _is_clear(known: _Date, text: str) -> bool:
    """Whether it is certainly a date: "2000" may be a number, "in 2000" is a year."""
    return known.month is not None or _pattern(_LEADING).search(text, 0, known.at) is not None


def _pair_ranges(dates: list[_Date], text: str) -> list[tuple[_Date, _Date]]:
    """Pair dates that are the ends of a range; every other date is a pair with itself."""
    found: list[tuple[_Date, _Date]] = []
    for known in dates:
        if found and _is_range(found[-1][0], found[-1][1], known, text):
            found[-1] = (found[-1][0], known)
        else:
            found.append((known, known))
    return found


def _is_range(first: _Date, last: _Date, then: _Date, text: str) -> bool:
    link = _pattern(_UP_TO).fullmatch(text, last.end, then.at)
    if link is None or first is not last:
        return False
    return link["and"] is None or _pattern(_BETWEEN).search(text, 0, first.at) is not None


def _build_period(first: _Date, last: _Date, text: str, today: date) -> list[Period]:
    """Build the period from one date to another, and apply the words before it."""
    start, end = _to_span(first, today), _to_span(last, today)
    from_day = start.first if start.first <= end.last else _shift_months(start.first, -12)
    span = _Span(min(from_day, end.first), max(from_day, end.last), start.precision)
    form: Form = "named" if first.year and last.year else "every year"
    words = text[first.at : last.end]
    return [_apply_side(_make_period(span, words, form), text, first.at)]


def _to_span(known: _Date, today: date) -> _Span:
    """Return the days of a date. A missing year becomes the latest one; an impossible day is ignored."""
    if known.month is None:
        year = known.year or today.year
        return _Span(date(year, 1, 1), date(year, 12, 31), "year")
    year = known.year or _latest_year(known.month, today, known.day or 1)
    if known.day is not None and 1 <= known.day <= _days_in_month(year, known.month):
        day = date(year, known.month, known.day)
        return _Span(day, day, "day")
    last = _shift_months(date(year, known.month, 1), known.months - 1)
    return _Span(date(year, known.month, 1), _clamp_to_month(last.year, last.month, 31), "month")


def _apply_side(period: Period, text: str, at: int) -> Period:
    """Extend a period to everything before or after it if the words before it ask for that."""
    side = _pattern(_SIDE).search(text, max(0, at - 32), at)
    if side is None:
        return period
    words = f"{side[0]}{period.text}"
    if side["before"]:
        return Period(MIN_TIME, period.end if side["until"] else max(MIN_TIME, period.start - 1), "before", words)
    return Period(period.start if side["since"] else min(MAX_TIME, period.end + 1), MAX_TIME, "after", words)


def _find_relative(text: str, today: date) -> list[Period]:
    """List the periods relative to today."""
    found = []
    for pattern, reader in _RELATIVE_PATTERNS if _pattern(_RELATIVE_HINT).search(text) else ():
        for match in _pattern(pattern).finditer(text):
            period = _make_period(reader(match, today), match[0], "counted")
            found.append((match.start(), _apply_side(period, text, match.start())))
            text = _blank_out(text, match)
    return [period for _, period in sorted(found)]


def _read_ago(match: re.Match[str], today: date) -> _Span:
    """Read "N days/weeks/months/years ago": a span around that day, wider for longer units."""
    count, unit = _read_count(match), match["unit"].lower()
    if unit == "day":
        day = _shift_days(today, -count)
        return _Span(day, day, "day" if count < 7 else "week")
    middle = (
        _shift_days(today, -7 * count)
        if unit == "week"
        else _shift_months(today, -count * (12 if unit == "year" else 1))
    )
    return _Span(
        _shift_days(middle, -(_UNIT_DAYS[unit] // 2)), _shift_days(middle, _UNIT_DAYS[unit] // 2), _UNIT_PRECISION[unit]
    )


def _read_past(match: re.Match[str], today: date) -> _Span:
    """Read "the last N days/weeks/months/years", up to today."""
    unit = match["unit"].lower()
    return _Span(_shift_days(today, -_UNIT_DAYS[unit] * _read_count(match)), today, _UNIT_PRECISION[unit])


def _read_count(match: re.Match[str]) -> int:
    count = (match["count"] or "one").lower()
    return int(count) if count.isdecimal() else _NUMBER_WORDS[count]


def _read_calendar_unit(match: re.Match[str], today: date) -> _Span:
    unit = match["unit"].lower()
    return _current_unit(unit, today) if match["which"].lower() == "this" else _previous_unit(unit, today)


def _current_unit(unit: str, today: date) -> _Span:
    monday = _shift_days(today, -today.weekday())
    if unit == "week":
        return _Span(monday, _shift_days(monday, 6), "week")
    if unit == "weekend":
        return _Span(_shift_days(monday, 5), _shift_days(monday, 6), "day")
    if unit == "month":
        return _Span(today.replace(day=1), _clamp_to_month(today.year, today.month, 31), "month")
    return _Span(date(today.year, 1, 1), date(today.year, 12, 31), "year")


def _previous_unit(unit: str, today: date) -> _Span:
    if unit in ("week", "weekend"):
        return _current_unit(unit, _shift_days(today, -7))
    return _current_unit(unit, _shift_months(today.replace(day=1), -12 if unit == "year" else -1))


def _read_season(match: re.Match[str], today: date) -> _Span:
    """Read this or the last season of the northern hemisphere."""
    month = _SEASONS[match["season"].lower()]
    first = date(_latest_year(month, today), month, 1)
    if match["which"].lower() != "this" and _shift_months(first, 3) > today:
        first = _shift_months(first, -12)
    return _Span(first, _shift_days(_shift_months(first, 3), -1), "month")


def _read_weekday(match: re.Match[str], today: date) -> _Span:
    back = (today.weekday() - _WEEKDAYS.index(match["weekday"].lower()) - 1) % 7 + 1
    return _Span(_shift_days(today, -back), _shift_days(today, -back), "day")


def _back_from_today(most: int, least: int, precision: Precision) -> Callable[[re.Match[str], date], _Span]:
    return lambda match, today: _Span(_shift_days(today, -most), _shift_days(today, -least), precision)


_RELATIVE_PATTERNS: tuple[tuple[str, Callable[[re.Match[str], date], _Span]], ...] = (
    (rf"{_COUNT}{_UNIT}\s+ago\b", _read_ago),
    (rf"\b(?:last|past)\s+{_COUNT}{_UNIT}", _read_past),
    (rf"\b(?:(?:in|over|during|within)\s+the\s+last|past)\s+(?P<count>){_UNIT}", _read_past),
    (rf"{_LAST_OR_THIS}(?P<unit>weekend|week|month|year)\b", _read_calendar_unit),
    (rf"{_LAST_OR_THIS}{_SEASON}", _read_season),
    (rf"(?:\b(?:last|past|on)\s+|{_AFTER_SIDE}){_WEEKDAY}", _read_weekday),
    (r"\bthe\s+day\s+before\s+yesterday\b", _back_from_today(2, 2, "day")),
    (r"\byesterday\b", _back_from_today(1, 1, "day")),
    (r"\blast\s+night\b", _back_from_today(1, 0, "day")),
    (r"\b(?:today|tonight|this\s+(?:morning|afternoon|evening))\b", _back_from_today(0, 0, "day")),
    (r"\bthe\s+other\s+day\b", _back_from_today(7, 1, "week")),
    (r"\b(?:recently|lately)\b", _back_from_today(30, 0, "recent")),
)


_FADE_DAYS: dict[Precision, int] = {"day": 1, "week": 4, "month": 10, "year": 60, "recent": 60}
"""Days over which a relative period fades out."""
_LIKELY_DAYS = 7
"""Days within which an event is likely to be mentioned."""
_MAX_LATER_DAYS: dict[Precision, int] = {"day": 14, "week": 14, "month": 30, "year": 90, "recent": 14}
"""Days after which an event is hardly mentioned any more."""
_NEAR_DAYS = 30
"""Days next to a date, on the asked side, within which nearer scores higher."""
_WEAK_SCORE = 0.3


def score_periods(periods: Iterable[Period], at: int | None) -> float:
    """Score how well a time fits the best of the periods: 0 to 1, and 1.5 on a named day.

    Events are often mentioned some days later.
    """
    if at is None:
        return 0.0
    return max((_score_period(period, at) for period in periods), default=0.0)


def _score_period(period: Period, at: int) -> float:
    if period.form == "counted":
        return _score_relative(period, at) * (_WEAK_SCORE if period.precision in ("year", "recent") else 1.0)
    if period.precision in ("before", "after"):
        return _score_open_side(period, at)
    if period.precision == "year":
        return _WEAK_SCORE if period.start <= at <= period.end else 0.0
    first, last, day = _to_date(period.start), _to_date(period.end), _to_date(at)
    if period.form == "named":
        return _score_day(first, last, period.precision, day)
    years = [year - last.year for year in (day.year - 1, day.year) if year >= 1]
    return max(
        _score_day(_shift_months(first, 12 * by), _shift_months(last, 12 * by), period.precision, day) for by in years
    )


def _score_open_side(period: Period, at: int) -> float:
    """Score a time on the asked side of a date: nearer scores higher. Earlier events may be mentioned soon after."""
    beyond = (at - period.end if period.precision == "before" else period.start - at) / DAY
    if beyond <= 0:
        return max(_WEAK_SCORE, 1 + beyond / _NEAR_DAYS)
    return _WEAK_SCORE / 2 if period.precision == "before" and beyond <= _LIKELY_DAYS else 0.0


def _score_day(first: date, last: date, precision: Precision, day: date) -> float:
    """Score the day on which an event from the first to the last day was mentioned."""
    month_after = 12 * (day.year - last.year) + day.month - last.month == 1
    within_months = first.replace(day=1) <= day <= _clamp_to_month(last.year, last.month, 31)
    if not month_after and not within_months:
        return 0.0
    if precision == "month":
        return 0.3 if month_after else 1.0
    if first <= day <= last:
        return 1.5
    soon = 0 < (day - last).days <= _LIKELY_DAYS
    return (0.6 if soon else 0.2) if month_after else (1.0 if soon else 0.4)


def _score_relative(period: Period, at: int) -> float:
    """Score 1 within the period, fading outside; half for a mention soon after."""
    early, late = (period.start - at) / DAY, (at - period.end) / DAY
    fading = 1 - max(early, late, 0) / _FADE_DAYS[period.precision]
    end = _MAX_LATER_DAYS[period.precision]
    told_later = 0.5 * min(1, (end - late) / (end - _LIKELY_DAYS)) if late > 0 else 0.0
    return max(fading, told_later, 0.0)


def _make_period(span: _Span, said: str, form: Form) -> Period:
    start = (span.first.toordinal() - _EPOCH) * DAY
    return Period(start, (span.last.toordinal() + 1 - _EPOCH) * DAY - 1, span.precision, said, form)


def _to_date(moment: int) -> date:
    return _shift_days(date(1970, 1, 1), moment // DAY)


def _shift_days(day: date, days: int) -> date:
    return date.fromordinal(min(max(day.toordinal() + days, 1), date.max.toordinal()))


def _shift_months(day: date, months: int) -> date:
    """Shift a day by months; the last day if that month is shorter."""
    year, month = divmod(12 * day.year + day.month - 1 + months, 12)
    return _clamp_to_month(year, month + 1, day.day) if 1 <= year <= 9999 else (date.min if year < 1 else date.max)


def _clamp_to_month(year: int, month: int, day: int) -> date:
    return date(year, month, min(day, _days_in_month(year, month)))


def _days_in_month(year: int, month: int) -> int:
    """Return the number of days of a month."""
    return 31 if month == 12 else (date(year, month + 1, 1) - date(year, month, 1)).days


def _latest_year(month: int, today: date, day: int = 1) -> int:
    """Return the latest year in which the month has begun and has this day."""
    year = max(1, today.year - (month > today.month))
    return next((one for one in range(year, max(0, year - 9), -1) if day <= _days_in_month(one, month)), year)
