"""When a task is due: once, after so long, by cron, or by the calendar of a place; pure, and right when clocks change.

A rule is kept as the text that was given. What it means is worked out on the clock of a wall in a zone: nine in the
morning stays nine in the morning. A time that a clock leaves out falls on the first one after it; one that a clock
shows twice counts the first time.
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
"""Beyond this nothing is due."""
MOST_STEPS = 20_000
"""Steps of a calendar without a day that fits: further than any rule that fits at all goes."""
LONGEST_RULE = 500
LONGEST_EVERY = 36_525 * 86_400
"""Seconds between two times of `every`: a hundred years."""

WORDS = {
    "daily": "FREQ=DAILY",
    "weekdays": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR",
    "weekly": "FREQ=WEEKLY",
    "monthly": "FREQ=MONTHLY",
    "yearly": "FREQ=YEARLY",
}
"""Rules that have a name."""

_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_DAY = re.compile(r"([+-]?[1-5])?(MO|TU|WE|TH|FR|SA|SU)")
_EVERY = re.compile(r"every ([1-9][0-9]{0,8}) ?(s|m|h|d|seconds?|minutes?|hours?|days?)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


class Every(NamedTuple):
    """So much time after the last one, whatever clocks show."""

    seconds: int


class Cron(NamedTuple):
    """The five fields of cron."""

    fields: str


class Weekday(NamedTuple):
    """A day of the week: each, or only the nth of a month, from its end if below zero."""

    nth: int | None
    day: int


class Calendar(NamedTuple):
    """Days of a calendar, at the hour of the first one."""

    frequency: Frequency
    interval: int = 1
    weekdays: tuple[Weekday, ...] = ()
    monthdays: tuple[int, ...] = ()
    most: int | None = None
    until: int | None = None


Rule = Every | Cron | Calendar


class Schedule(NamedTuple):
    """A rule, the zone on whose clocks it goes, and the first time it counts from."""

    rule: Rule | None
    zone: ZoneInfo
    first: int


def schedule(repeat: str | None, zone: str, first: int) -> Schedule:
    """What a text means, from its first time on. Raises Invalid for what never comes or cannot be read."""
    made = Schedule(rule_of(repeat), zone_of(zone), first)
    if isinstance(made.rule, Every) and made.rule.seconds > LONGEST_EVERY:
        raise Invalid(f"repeat: {repeat!r} is too long: at most a hundred years, 36525 days", fields=["repeat"])
    if made.rule is not None and after(made, first - 1) is None:
        raise Invalid("repeat: that never comes", fields=["repeat"])
    return made


_NO_ZONES = ("right/", "posix", "Factory", "localtime")
"""Files that lie among the zones: clocks that count leap seconds, copies, and whatever this machine is set to."""


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    """The zone of a name, such as Europe/Berlin."""
    try:
        if name.startswith(_NO_ZONES):
            raise ValueError(name)
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise Invalid(f"zone: there is no zone {name!r}: write one such as Europe/Berlin", fields=["zone"]) from None


def due(text: str, zone: str) -> int:
    """A moment; one without an offset is on the clock of the zone."""
    given = text.strip()
    try:
        wall = datetime.fromisoformat(given)
    except ValueError:
        return from_text(given, "due_at")
    if wall.tzinfo is not None:
        return from_text(given, "due_at")
    try:
        return on_the_wall(wall, zone_of(zone))
    except OverflowError:
        raise Invalid(f"due_at: {given} in {zone} lies beyond the years 1 to 9999", fields=["due_at"]) from None


def rule_of(repeat: str | None) -> Rule | None:
    """What a text says: a word, `every 90 minutes`, five fields of cron, or `FREQ=...` as calendars write it."""
    if repeat is None or repeat == "once":
        return None
    if len(repeat) > LONGEST_RULE:
        raise _unreadable(repeat[:40])
    if found := _EVERY.fullmatch(repeat):
        return Every(int(found[1]) * _SECONDS[found[2][0]])
    if (said := WORDS.get(repeat, repeat)).upper().startswith("FREQ="):
        return _calendar(said.upper())
    if len(repeat.split()) == 5:
        return _cron(repeat)
    raise _unreadable(repeat)


def after(schedule: Schedule, moment: int) -> int | None:
    """The first time later than a moment; None: there is none any more."""
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
    """When it is due again after one time was dealt with: each that was missed, or what comes next."""
    return after(schedule, done if misfire == "all" else max(done, now))


def is_missed(schedule: Schedule, due: int, now: int) -> bool:
    """Whether a time was slept through: the one after it is over, too."""
    following = after(schedule, due)
    return following is not None and following <= now


def on_the_wall(wall: datetime, zone: ZoneInfo) -> int:
    """The moment at which a clock of the zone shows a time, or the first one after those it leaves out."""
    at = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if at.astimezone(zone).replace(tzinfo=None) != wall:
        at = _end_of_gap(wall, zone)
    return (at - _BEGIN) // timedelta(microseconds=1)


def wall_of(moment: int, zone: ZoneInfo) -> datetime:
    """What a clock of the zone shows at a moment."""
    return (_BEGIN + timedelta(microseconds=moment)).astimezone(zone).replace(tzinfo=None)


def _end_of_gap(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first moment after a gap: as late as the time with the old offset is short of the one with the new."""
    early, late = (wall.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta() for fold in (0, 1))
    before, gone = (wall - late).replace(tzinfo=UTC), (wall - early).replace(tzinfo=UTC)
    while gone - before > timedelta(microseconds=1):
        middle = before + (gone - before) / 2
        changed = middle.astimezone(zone).utcoffset() == late
        before, gone = (before, middle) if changed else (middle, gone)
    return gone


def _unreadable(repeat: str) -> Invalid:
    return Invalid(
        f"repeat: {repeat!r} is no rule: write daily, weekdays, weekly, monthly, yearly, `every 90 minutes`, "
        "five fields of cron, or FREQ=MONTHLY;BYMONTHDAY=31",
        fields=["repeat"],
    )


def _cron(text: str) -> Cron:
    from cronsim import CronSim, CronSimError

    try:
        CronSim(text, datetime(2000, 1, 1))
    except CronSimError as error:
        raise Invalid(f"repeat: {text!r} is no rule of cron: {error}", fields=["repeat"]) from None
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
        raise Invalid(f"repeat: {', '.join(sorted(unknown))} is not understood in {text!r}", fields=["repeat"])
    rule = Calendar(
        frequency=frequency,  # type: ignore[arg-type]
        interval=_number(parts, "INTERVAL", 1000) or 1,
        weekdays=tuple(_weekday(day, frequency) for day in _listed(parts, "BYDAY")),
        monthdays=tuple(_monthday(day, frequency) for day in _listed(parts, "BYMONTHDAY")),
        most=_number(parts, "COUNT", 10_000),
        until=_until(parts["UNTIL"]) if "UNTIL" in parts else None,
    )
    if rule.weekdays and rule.monthdays:
        raise Invalid("repeat: BYDAY or BYMONTHDAY, not both", fields=["repeat"])
    return rule


def _listed(parts: dict[str, str], name: str) -> list[str]:
    return parts[name].split(",") if name in parts else []


def _number(parts: dict[str, str], name: str, most: int) -> int | None:
    if name not in parts:
        return None
    if not re.fullmatch(r"[0-9]{1,7}", parts[name]) or not 1 <= int(parts[name]) <= most:
        raise Invalid(f"repeat: {name} is a number from 1 to {most:,}", fields=["repeat"])
    return int(parts[name])


def _weekday(text: str, frequency: str) -> Weekday:
    found = _DAY.fullmatch(text)
    if found is None or frequency not in ("WEEKLY", "MONTHLY") or (found[1] and frequency == "WEEKLY"):
        raise Invalid(f"repeat: {text!r} is no day of a {frequency.lower()} rule", fields=["repeat"])
    return Weekday(int(found[1]) if found[1] else None, _DAYS.index(found[2]))


def _monthday(text: str, frequency: str) -> int:
    if frequency != "MONTHLY" or not re.fullmatch(r"-?[0-9]{1,2}", text) or not 1 <= abs(int(text)) <= 31:
        raise Invalid(f"repeat: {text!r} is no day of a month in a {frequency.lower()} rule", fields=["repeat"])
    return int(text)


def _until(text: str) -> int:
    """The last moment of a rule; a date alone lasts until its end."""
    found = re.fullmatch(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})(T([0-9]{2}):?([0-9]{2}):?([0-9]{2})Z)?", text)
    if found is None:
        raise Invalid(f"repeat: UNTIL={text} is no time: write it as 20261231 or 20261231T120000Z", fields=["repeat"])
    year, month, day, time, hour, minute, second = found.groups()
    clock = f"{hour}:{minute}:{second}" if time else "23:59:59.999999"
    return from_text(f"{year}-{month}-{day}T{clock}Z", "repeat")


def _times(rule: Calendar, schedule: Schedule, moment: int) -> Iterator[int]:
    """The times of a calendar in order, from near a moment on; from the first one if they have to be counted."""
    try:
        start = wall_of(schedule.first, schedule.zone)
        reached = start if rule.most else max(start, wall_of(moment, schedule.zone))
    except OverflowError:
        return
    counted = 0
    for day in _days(rule, start, reached):
        at = on_the_wall(day, schedule.zone)
        if at < schedule.first:
            continue
        if (rule.until is not None and at > rule.until) or (rule.most is not None and counted >= rule.most):
            return
        counted += 1
        yield at


def _days(rule: Calendar, start: datetime, reached: datetime) -> Iterator[datetime]:
    """The days of the steps of a rule, each at the hour of the first, from the step that holds a time on."""
    step = _steps_before(rule, start, reached)
    for number in range(step, step + MOST_STEPS):
        try:
            days = list(_in_step(rule, start, number * rule.interval))
        except (OverflowError, ValueError):
            return
        yield from sorted(days)


def _steps_before(rule: Calendar, start: datetime, reached: datetime) -> int:
    """Steps that end before a time, one spared."""
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
    """The days of a month that a rule names; one that it does not have is its last."""
    first, length = calendar.monthrange(year, month)
    if not rule.weekdays:
        given = rule.monthdays or (start.day,)
        return {min(day, length) if day > 0 else max(1, length + 1 + day) for day in given}
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
