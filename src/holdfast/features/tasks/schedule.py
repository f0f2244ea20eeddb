"""Recurrence rules: once, fixed intervals, cron and calendar rules, in a time zone. Pure functions.

Rules are stored as text and evaluated in local time: 09:00 stays 09:00 across clock changes. A local time skipped by a
clock change moves to the first one after the gap; a repeated local time counts once, at its first occurrence.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from holdfast.kernel.errors import Invalid
from holdfast.kernel.timestamps import SECOND, parse_timestamp

Misfire = Literal["skip", "once", "all"]
Frequency = Literal["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]

LAST_YEAR = 9000
"""Occurrences after this year are ignored."""
MAX_RULE_CHARS = 500
MAX_INTERVAL_SECONDS = 36_525 * 86_400
"""Maximum interval of `every` in seconds: 100 years."""

NAMED_RULES = {
    "daily": "FREQ=DAILY",
    "weekdays": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR",
    "weekly": "FREQ=WEEKLY",
    "monthly": "FREQ=MONTHLY",
    "yearly": "FREQ=YEARLY",
}
"""Named rules."""

_LONGEST_DAYS = {"DAILY": 1, "WEEKLY": 7, "MONTHLY": 31, "YEARLY": 366}
"""Days of the longest day, week, month and year."""
_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_DAY = re.compile(r"([+-]?[1-5])?(MO|TU|WE|TH|FR|SA|SU)")
_EVERY = re.compile(r"every ([1-9][0-9]{0,8}) ?(s|m|h|d|seconds?|minutes?|hours?|days?)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Every(NamedTuple):
    """Fixed interval in elapsed time."""

    seconds: int


class Cron(NamedTuple):
    """Five-field cron rule."""

    fields: str


class Weekday(NamedTuple):
    """Weekday: every one, or the nth of a month (negative counts from the end)."""

    nth: int | None
    day: int


class Calendar(NamedTuple):
    """Calendar rule; occurrences have the time of day of the first one."""

    frequency: Frequency
    interval: int = 1
    weekdays: tuple[Weekday, ...] = ()
    monthdays: tuple[int, ...] = ()
    max_count: int | None = None
    until: int | None = None


Rule = Every | Cron | Calendar


class Schedule(NamedTuple):
    """Rule, time zone and first occurrence."""

    rule: Rule | None
    zone: ZoneInfo
    first: int


def parse_schedule(repeat: str | None, zone: str, first: int) -> Schedule:
    """Parse a rule. Raises Invalid if it is malformed or has no occurrence."""
    result = Schedule(parse_rule(repeat), parse_zone(zone), first)
    if isinstance(result.rule, Every) and result.rule.seconds > MAX_INTERVAL_SECONDS:
        raise Invalid(f"repeat: {repeat!r} is too long: the maximum is 36525 days", fields=["repeat"])
    if result.rule is not None and next_after(result, first - 1) is None:
        raise Invalid("repeat: this rule never comes due", fields=["repeat"])
    return result


_NO_ZONES = ("right/", "posix", "Factory", "localtime")
"""Zone files to reject: leap-second variants, copies and the local setting of this machine."""


@lru_cache(maxsize=256)
def parse_zone(name: str) -> ZoneInfo:
    """Load a time zone by name, such as Europe/Berlin."""
    try:
        if name.startswith(_NO_ZONES):
            raise ValueError(name)
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise Invalid(f"zone: unknown time zone {name!r}: use one such as Europe/Berlin", fields=["zone"]) from None


def parse_due(text: str, zone: str) -> int:
    """Parse a time; without an offset it is local time in the zone."""
    value = text.strip()
    try:
        wall = datetime.fromisoformat(value)
    except ValueError:
        return parse_timestamp(value, "due_at")
    if wall.tzinfo is not None:
        return parse_timestamp(value, "due_at")
    try:
        return wall_to_timestamp(wall, parse_zone(zone))
    except OverflowError:
        raise Invalid(f"due_at: {value} in {zone} is outside the years 1 to 9999", fields=["due_at"]) from None


def parse_rule(repeat: str | None) -> Rule | None:
    """Parse a named rule, `every 90 minutes`, five cron fields, or an iCalendar `FREQ=...` rule."""
    if repeat is None or repeat == "once":
        return None
    if len(repeat) > MAX_RULE_CHARS:
        raise _unreadable_rule(repeat[:40])
    if found := _EVERY.fullmatch(repeat):
        return Every(int(found[1]) * _SECONDS[found[2][0]])
    if (rule_text := NAMED_RULES.get(repeat, repeat)).upper().startswith("FREQ="):
        return _parse_calendar(rule_text.upper())
    if len(repeat.split()) == 5:
        return _parse_cron(repeat)
    raise _unreadable_rule(repeat)


def next_after(schedule: Schedule, moment: int) -> int | None:
    """First occurrence after a time, or None."""
    match schedule.rule:
        case None:
            return schedule.first if schedule.first > moment else None
        case Every(seconds):
            steps = max(0, (moment - schedule.first) // (seconds * SECOND) + 1)
            return _limit_year(schedule.first + steps * seconds * SECOND)
        case Cron(fields):
            return _next_cron(fields, schedule.zone, max(moment, schedule.first - 1))
        case Calendar() as rule:
            return next((at for at in _list_times(rule, schedule, moment) if at > moment), None)


def next_due(schedule: Schedule, done: int, now: int, misfire: Misfire) -> int | None:
    """Next occurrence after one has ended: the next missed one (`all`), or the next in the future."""
    return next_after(schedule, done if misfire == "all" else max(done, now))


def is_missed(schedule: Schedule, due: int, now: int) -> bool:
    """Whether an occurrence was missed: the one after it has passed, too."""
    following = next_after(schedule, due)
    return following is not None and following <= now


def wall_to_timestamp(wall: datetime, zone: ZoneInfo) -> int:
    """Convert local time to a timestamp; a skipped local time becomes the end of the gap."""
    at = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if at.astimezone(zone).replace(tzinfo=None) != wall:
        at = _end_of_gap(wall, zone)
    return (at - _EPOCH) // timedelta(microseconds=1)


def timestamp_to_wall(moment: int, zone: ZoneInfo) -> datetime:
    """Convert a timestamp to local time."""
    return (_EPOCH + timedelta(microseconds=moment)).astimezone(zone).replace(tzinfo=None)


def _end_of_gap(wall: datetime, zone: ZoneInfo) -> datetime:
    """Find the end of a clock gap by bisection between the old and the new offset."""
    early, late = (wall.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta() for fold in (0, 1))
    low, high = (wall - late).replace(tzinfo=UTC), (wall - early).replace(tzinfo=UTC)
    while high - low > timedelta(microseconds=1):
        middle = low + (high - low) / 2
        is_after = middle.astimezone(zone).utcoffset() == late
        low, high = (low, middle) if is_after else (middle, high)
    return high


def _unreadable_rule(repeat: str) -> Invalid:
    return Invalid(
        f"repeat: {repeat!r} is not a rule: use daily, weekdays, weekly, monthly, yearly, `every 90 minutes`, "
        "five fields of cron, or FREQ=MONTHLY;BYMONTHDAY=31",
        fields=["repeat"],
    )


def _parse_cron(text: str) -> Cron:
    _iterate_cron(text, datetime(2000, 1, 1))
    return Cron(text)


def _iterate_cron(fields: str, start: datetime) -> Iterator[datetime]:
    from cronsim import CronSim, CronSimError  # only cron rules need it, not every start of a session

    try:
        return CronSim(fields, start)
    except CronSimError as error:
        raise Invalid(f"repeat: {fields!r} is not a cron rule: {error}", fields=["repeat"]) from None


def _next_cron(fields: str, zone: ZoneInfo, moment: int) -> int | None:
    try:
        found = next(_iterate_cron(fields, (_EPOCH + timedelta(microseconds=moment)).astimezone(zone)))
    except (StopIteration, OverflowError):
        return None
    return _limit_year((found - _EPOCH) // timedelta(microseconds=1))


def _parse_calendar(text: str) -> Calendar:
    parts = {name: value for name, _, value in (part.partition("=") for part in text.split(";") if part)}
    frequency = parts.pop("FREQ")
    if frequency not in ("DAILY", "WEEKLY", "MONTHLY", "YEARLY"):
        raise _unreadable_rule(text)
    known = {"INTERVAL", "BYDAY", "BYMONTHDAY", "COUNT", "UNTIL"}
    if unknown := parts.keys() - known:
        raise Invalid(f"repeat: {', '.join(sorted(unknown))} is not supported in {text!r}", fields=["repeat"])
    rule = Calendar(
        frequency=frequency,  # type: ignore[arg-type]
        interval=_parse_number(parts, "INTERVAL", 1000) or 1,
        weekdays=tuple(_parse_weekday(day, frequency) for day in _split_list(parts, "BYDAY")),
        monthdays=tuple(_parse_monthday(day, frequency) for day in _split_list(parts, "BYMONTHDAY")),
        max_count=_parse_number(parts, "COUNT", 10_000),
        until=_parse_until(parts["UNTIL"]) if "UNTIL" in parts else None,
    )
    if rule.weekdays and rule.monthdays:
        raise Invalid("repeat: use BYDAY or BYMONTHDAY, not both", fields=["repeat"])
    return rule


def _split_list(parts: dict[str, str], name: str) -> list[str]:
    return parts[name].split(",") if name in parts else []


def _parse_number(parts: dict[str, str], name: str, maximum: int) -> int | None:
    if name not in parts:
        return None
    if not re.fullmatch(r"[0-9]{1,7}", parts[name]) or not 1 <= int(parts[name]) <= maximum:
        raise Invalid(f"repeat: {name} must be a number from 1 to {maximum:,}", fields=["repeat"])
    return int(parts[name])


def _parse_weekday(text: str, frequency: str) -> Weekday:
    found = _DAY.fullmatch(text)
    if found is None or frequency not in ("WEEKLY", "MONTHLY") or (found[1] and frequency == "WEEKLY"):
        raise Invalid(f"repeat: {text!r} is not a valid BYDAY of a {frequency.lower()} rule", fields=["repeat"])
    return Weekday(int(found[1]) if found[1] else None, _DAYS.index(found[2]))


def _parse_monthday(text: str, frequency: str) -> int:
    if frequency != "MONTHLY" or not re.fullmatch(r"-?[0-9]{1,2}", text) or not 1 <= abs(int(text)) <= 31:
        raise Invalid(f"repeat: {text!r} is not a valid BYMONTHDAY of a {frequency.lower()} rule", fields=["repeat"])
    return int(text)


def _parse_until(text: str) -> int:
    """Parse UNTIL; a date means the end of that day."""
    found = re.fullmatch(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})(T([0-9]{2}):?([0-9]{2}):?([0-9]{2})Z)?", text)
    if found is None:
        raise Invalid(f"repeat: UNTIL={text} is not a time: use 20261231 or 20261231T120000Z", fields=["repeat"])
    year, month, day, time, hour, minute, second = found.groups()
    clock = f"{hour}:{minute}:{second}" if time else "23:59:59.999999"
    return parse_timestamp(f"{year}-{month}-{day}T{clock}Z", "repeat")


def _list_times(rule: Calendar, schedule: Schedule, moment: int) -> Iterator[int]:
    """Occurrences in order, starting near a time, or at the first one if COUNT is set."""
    try:
        start = timestamp_to_wall(schedule.first, schedule.zone)
        search_from = start if rule.max_count else max(start, timestamp_to_wall(moment, schedule.zone))
    except OverflowError:
        return
    count = 0
    for day in _list_days(rule, start, search_from):
        at = wall_to_timestamp(day, schedule.zone)
        if at < schedule.first:
            continue
        if (rule.until is not None and at > rule.until) or (rule.max_count is not None and count >= rule.max_count):
            return
        count += 1
        yield at


def _list_days(rule: Calendar, start: datetime, reached: datetime) -> Iterator[datetime]:
    """Matching days, at the time of day of the first one, from a step before a time."""
    from dateutil import rrule  # only calendar rules need it, not every start of a session

    length = _LONGEST_DAYS[rule.frequency]
    steps = max(0, (reached - start).days // length // rule.interval - 1) * rule.interval
    if rule.frequency in ("DAILY", "WEEKLY"):
        unit, interval = getattr(rrule, rule.frequency), rule.interval
        anchor = start + timedelta(days=steps * length)
        filters: list[dict[str, Any]] = [{"byweekday": [day.day for day in rule.weekdays] or None}]
    else:
        months = 12 if rule.frequency == "YEARLY" else 1
        unit, interval = rrule.MONTHLY, rule.interval * months
        year, month = divmod(start.month - 1 + steps * months, 12)
        anchor = start.replace(start.year + year, month + 1, 1)
        filters = [{"byweekday": rrule.weekday(day.day, day.nth)} for day in rule.weekdays]
        filters = filters or [_nearest_day(day) for day in rule.monthdays or (start.day,)]
    found = rrule.rruleset()  # one rule for each filter: a rule with several needs all of them
    for chosen in filters:
        found.rrule(rrule.rrule(unit, anchor, interval, until=datetime(LAST_YEAR + 1, 1, 1), **chosen))
    return (day.replace(microsecond=start.microsecond) for day in found)


def _nearest_day(day: int) -> dict[str, Any]:
    """Select a day of a month, or the nearest one if the month is shorter."""
    if day > 0:
        return {"bymonthday": range(min(day, 28), day + 1), "bysetpos": -1}
    return {"bymonthday": range(day, max(day, -28) + 1), "bysetpos": 1}


def _limit_year(moment: int) -> int | None:
    return moment if moment < wall_to_timestamp(datetime(LAST_YEAR + 1, 1, 1), ZoneInfo("UTC")) else None
