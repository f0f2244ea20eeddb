"""Recurrence rules: once, fixed intervals, cron and calendar rules, in a time zone. Pure functions.

Rules are stored as text and evaluated in local time: 09:00 stays 09:00 across clock changes. A local time skipped by a
clock change moves to the first one after the gap; a repeated local time counts once, at its first occurrence.
"""

import calendar
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from holdfast.kernel.errors import Invalid
from holdfast.kernel.timestamps import SECOND, from_text

Misfire = Literal["skip", "once", "all"]
Frequency = Literal["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]

LAST_YEAR = 9000
"""Occurrences after this year are ignored."""
MOST_STEPS = 20_000
"""Calendar steps searched for a matching day; any satisfiable rule matches sooner."""
LONGEST_RULE = 500
LONGEST_EVERY = 36_525 * 86_400
"""Maximum interval of `every` in seconds: 100 years."""

WORDS = {
    "daily": "FREQ=DAILY",
    "weekdays": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR",
    "weekly": "FREQ=WEEKLY",
    "monthly": "FREQ=MONTHLY",
    "yearly": "FREQ=YEARLY",
}
"""Named rules."""

_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_DAY = re.compile(r"([+-]?[1-5])?(MO|TU|WE|TH|FR|SA|SU)")
_EVERY = re.compile(r"every ([1-9][0-9]{0,8}) ?(s|m|h|d|seconds?|minutes?|hours?|days?)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


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
    most: int | None = None
    until: int | None = None


Rule = Every | Cron | Calendar


class Schedule(NamedTuple):
    """Rule, time zone and first occurrence."""

    rule: Rule | None
    zone: ZoneInfo
    first: int


def schedule(repeat: str | None, zone: str, first: int) -> Schedule:
    """Parse a rule. Raises Invalid if it is malformed or has no occurrence."""
    result = Schedule(rule_of(repeat), zone_of(zone), first)
    if isinstance(result.rule, Every) and result.rule.seconds > LONGEST_EVERY:
        raise Invalid(f"repeat: {repeat!r} is too long: the maximum is 36525 days", fields=["repeat"])
    if result.rule is not None and after(result, first - 1) is None:
        raise Invalid("repeat: this rule never comes due", fields=["repeat"])
    return result


_NO_ZONES = ("right/", "posix", "Factory", "localtime")
"""Zone files to reject: leap-second variants, copies and the local setting of this machine."""


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    """Load a time zone by name, such as Europe/Berlin."""
    try:
        if name.startswith(_NO_ZONES):
            raise ValueError(name)
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise Invalid(f"zone: unknown time zone {name!r}: use one such as Europe/Berlin", fields=["zone"]) from None


def due(text: str, zone: str) -> int:
    """Parse a time; without an offset it is local time in the zone."""
    value = text.strip()
    try:
        wall = datetime.fromisoformat(value)
    except ValueError:
        return from_text(value, "due_at")
    if wall.tzinfo is not None:
        return from_text(value, "due_at")
    try:
        return on_the_wall(wall, zone_of(zone))
    except OverflowError:
        raise Invalid(f"due_at: {value} in {zone} is outside the years 1 to 9999", fields=["due_at"]) from None


def rule_of(repeat: str | None) -> Rule | None:
    """Parse a named rule, `every 90 minutes`, five cron fields, or an iCalendar `FREQ=...` rule."""
    if repeat is None or repeat == "once":
        return None
    if len(repeat) > LONGEST_RULE:
        raise _unreadable(repeat[:40])
    if found := _EVERY.fullmatch(repeat):
        return Every(int(found[1]) * _SECONDS[found[2][0]])
    if (rule_text := WORDS.get(repeat, repeat)).upper().startswith("FREQ="):
        return _calendar(rule_text.upper())
    if len(repeat.split()) == 5:
        return _cron(repeat)
    raise _unreadable(repeat)


def after(schedule: Schedule, moment: int) -> int | None:
    """First occurrence after a time, or None."""
    match schedule.rule:
        case None:
            return schedule.first if schedule.first > moment else None
        case Every(seconds):
            steps = max(0, (moment - schedule.first) // (seconds * SECOND) + 1)
            return _within(schedule.first + steps * seconds * SECOND)
        case Cron(fields):
            return _cron_after(fields, schedule.zone, max(moment, schedule.first - 1))
        case Calendar() as rule:
            return next((at for at in _times(rule, schedule, moment) if at > moment), None)


def next_due(schedule: Schedule, done: int, now: int, misfire: Misfire) -> int | None:
    """Next occurrence after one has ended: the next missed one (`all`), or the next in the future."""
    return after(schedule, done if misfire == "all" else max(done, now))


def is_missed(schedule: Schedule, due: int, now: int) -> bool:
    """Whether an occurrence was missed: the one after it has passed, too."""
    following = after(schedule, due)
    return following is not None and following <= now


def on_the_wall(wall: datetime, zone: ZoneInfo) -> int:
    """Convert local time to a timestamp; a skipped local time becomes the end of the gap."""
    at = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if at.astimezone(zone).replace(tzinfo=None) != wall:
        at = _end_of_gap(wall, zone)
    return (at - _BEGIN) // timedelta(microseconds=1)


def wall_of(moment: int, zone: ZoneInfo) -> datetime:
    """Convert a timestamp to local time."""
    return (_BEGIN + timedelta(microseconds=moment)).astimezone(zone).replace(tzinfo=None)


def _end_of_gap(wall: datetime, zone: ZoneInfo) -> datetime:
    """Find the end of a clock gap by bisection between the old and the new offset."""
    early, late = (wall.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta() for fold in (0, 1))
    low, high = (wall - late).replace(tzinfo=UTC), (wall - early).replace(tzinfo=UTC)
    while high - low > timedelta(microseconds=1):
        middle = low + (high - low) / 2
        is_after = middle.astimezone(zone).utcoffset() == late
        low, high = (low, middle) if is_after else (middle, high)
    return high


def _unreadable(repeat: str) -> Invalid:
    return Invalid(
        f"repeat: {repeat!r} is not a rule: use daily, weekdays, weekly, monthly, yearly, `every 90 minutes`, "
        "five fields of cron, or FREQ=MONTHLY;BYMONTHDAY=31",
        fields=["repeat"],
    )


def _cron(text: str) -> Cron:
    from cronsim import CronSim, CronSimError

    try:
        CronSim(text, datetime(2000, 1, 1))
    except CronSimError as error:
        raise Invalid(f"repeat: {text!r} is not a cron rule: {error}", fields=["repeat"]) from None
    return Cron(text)


def _cron_after(fields: str, zone: ZoneInfo, moment: int) -> int | None:
    from cronsim import CronSim

    try:
        found = next(CronSim(fields, (_BEGIN + timedelta(microseconds=moment)).astimezone(zone)))
    except (StopIteration, OverflowError):
        return None
    return _within((found - _BEGIN) // timedelta(microseconds=1))


def _calendar(text: str) -> Calendar:
    parts = {name: value for name, _, value in (part.partition("=") for part in text.split(";") if part)}
    frequency = parts.pop("FREQ")
    if frequency not in ("DAILY", "WEEKLY", "MONTHLY", "YEARLY"):
        raise _unreadable(text)
    known = {"INTERVAL", "BYDAY", "BYMONTHDAY", "COUNT", "UNTIL"}
    if unknown := parts.keys() - known:
        raise Invalid(f"repeat: {', '.join(sorted(unknown))} is not supported in {text!r}", fields=["repeat"])
    rule = Calendar(
        frequency=frequency,  # type: ignore[arg-type]
        interval=_number(parts, "INTERVAL", 1000) or 1,
        weekdays=tuple(_weekday(day, frequency) for day in _listed(parts, "BYDAY")),
        monthdays=tuple(_monthday(day, frequency) for day in _listed(parts, "BYMONTHDAY")),
        most=_number(parts, "COUNT", 10_000),
        until=_until(parts["UNTIL"]) if "UNTIL" in parts else None,
    )
    if rule.weekdays and rule.monthdays:
        raise Invalid("repeat: use BYDAY or BYMONTHDAY, not both", fields=["repeat"])
    return rule


def _listed(parts: dict[str, str], name: str) -> list[str]:
    return parts[name].split(",") if name in parts else []


def _number(parts: dict[str, str], name: str, most: int) -> int | None:
    if name not in parts:
        return None
    if not re.fullmatch(r"[0-9]{1,7}", parts[name]) or not 1 <= int(parts[name]) <= most:
        raise Invalid(f"repeat: {name} must be a number from 1 to {most:,}", fields=["repeat"])
    return int(parts[name])


def _weekday(text: str, frequency: str) -> Weekday:
    found = _DAY.fullmatch(text)
    if found is None or frequency not in ("WEEKLY", "MONTHLY") or (found[1] and frequency == "WEEKLY"):
        raise Invalid(f"repeat: {text!r} is not a valid BYDAY of a {frequency.lower()} rule", fields=["repeat"])
    return Weekday(int(found[1]) if found[1] else None, _DAYS.index(found[2]))


def _monthday(text: str, frequency: str) -> int:
    if frequency != "MONTHLY" or not re.fullmatch(r"-?[0-9]{1,2}", text) or not 1 <= abs(int(text)) <= 31:
        raise Invalid(f"repeat: {text!r} is not a valid BYMONTHDAY of a {frequency.lower()} rule", fields=["repeat"])
    return int(text)


def _until(text: str) -> int:
    """Parse UNTIL; a date means the end of that day."""
    found = re.fullmatch(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})(T([0-9]{2}):?([0-9]{2}):?([0-9]{2})Z)?", text)
    if found is None:
        raise Invalid(f"repeat: UNTIL={text} is not a time: use 20261231 or 20261231T120000Z", fields=["repeat"])
    year, month, day, time, hour, minute, second = found.groups()
    clock = f"{hour}:{minute}:{second}" if time else "23:59:59.999999"
    return from_text(f"{year}-{month}-{day}T{clock}Z", "repeat")


def _times(rule: Calendar, schedule: Schedule, moment: int) -> Iterator[int]:
    """Occurrences in order, starting near a time, or at the first one if COUNT is set."""
    try:
        start = wall_of(schedule.first, schedule.zone)
        search_from = start if rule.most else max(start, wall_of(moment, schedule.zone))
    except OverflowError:
        return
    count = 0
    for day in _days(rule, start, search_from):
        at = on_the_wall(day, schedule.zone)
        if at < schedule.first:
            continue
        if (rule.until is not None and at > rule.until) or (rule.most is not None and count >= rule.most):
            return
        count += 1
        yield at


def _days(rule: Calendar, start: datetime, reached: datetime) -> Iterator[datetime]:
    """Matching days, at the time of day of the first one, from the step that contains a time."""
    step = _steps_before(rule, start, reached)
    for number in range(step, step + MOST_STEPS):
        try:
            days = list(_in_step(rule, start, number * rule.interval))
        except (OverflowError, ValueError):
            return
        yield from sorted(days)


def _steps_before(rule: Calendar, start: datetime, reached: datetime) -> int:
    """Number of steps before a time, minus one."""
    match rule.frequency:
        case "DAILY":
            units = (reached - start).days
        case "WEEKLY":
            units = (reached - start).days // 7
        case "MONTHLY":
            units = (reached.year - start.year) * 12 + reached.month - start.month
        case "YEARLY":
            units = reached.year - start.year
    return max(0, units // rule.interval - 1)


def _in_step(rule: Calendar, start: datetime, units: int) -> Iterator[datetime]:
    match rule.frequency:
        case "DAILY":
            yield _whole(start + timedelta(days=units))
        case "WEEKLY":
            monday = start - timedelta(days=start.weekday()) + timedelta(weeks=units)
            days = [weekday.day for weekday in rule.weekdays] or [start.weekday()]
            yield from (_whole(monday + timedelta(days=day)) for day in set(days))
        case "MONTHLY":
            year, month = divmod(start.year * 12 + start.month - 1 + units, 12)
            yield from (
                _whole(start.replace(year=year, month=month + 1, day=day))
                for day in _in_month(rule, start, year, month + 1)
            )
        case "YEARLY":
            year = start.year + units
            yield _whole(start.replace(year=year, day=min(start.day, calendar.monthrange(year, start.month)[1])))


def _in_month(rule: Calendar, start: datetime, year: int, month: int) -> set[int]:
    """Days of a month that match a rule; a missing day becomes the last of the month."""
    first, length = calendar.monthrange(year, month)
    if not rule.weekdays:
        monthdays = rule.monthdays or (start.day,)
        return {min(day, length) if day > 0 else max(1, length + 1 + day) for day in monthdays}
    found: set[int] = set()
    for nth, weekday in rule.weekdays:
        days = list(range(1 + (weekday - first) % 7, length + 1, 7))
        if nth is None:
            found.update(days)
        elif abs(nth) <= len(days):
            found.add(days[nth - 1] if nth > 0 else days[nth])
    return found


def _whole(day: datetime) -> datetime:
    if day.year > LAST_YEAR:
        raise OverflowError
    return day


def _within(moment: int) -> int | None:
    return moment if moment < on_the_wall(datetime(LAST_YEAR + 1, 1, 1), ZoneInfo("UTC")) else None
