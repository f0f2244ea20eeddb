"""Timestamps, stamps of the hybrid clock, and record ids.

Timestamps are integers in code (microseconds since 1970, UTC) and RFC 3339 text on the wire.
"""

import os
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Annotated, NamedTuple

from msgspec import UNSET, Meta, UnsetType

from holdfast.kernel.errors import Invalid

SECOND = 1_000_000
DAY = 86_400 * SECOND
NO_END = 1 << 62
"""Later than every timestamp: the end of records that have none."""

TIME = Meta(extra={"time": True})
Time = Annotated[int, TIME]
"""A timestamp in a record: RFC 3339 text on the wire, an aware datetime in the library."""
TimeText = Annotated[str, TIME]
"""RFC 3339 text in an answer: an aware datetime in the library."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)
"""The same without a time zone: formatting takes a third of the time."""
_MICROSECOND = timedelta(microseconds=1)


def format_timestamp(timestamp: int) -> str:
    """Format as RFC 3339; a timestamp outside the years 1 to 9999 is clamped."""
    try:
        at = _NAIVE_EPOCH + timedelta(microseconds=timestamp)
    except OverflowError:
        at = datetime.max if timestamp > 0 else datetime.min
    return at.isoformat(timespec="microseconds") + "Z"


def format_datetime(at: datetime) -> str:
    """Format an aware datetime as RFC 3339."""
    return format_timestamp((at - EPOCH) // _MICROSECOND)


def utc_offset(text: str | None) -> int:
    """Return the UTC offset of a time in microseconds; without one, that of this machine."""
    at = datetime.now().astimezone() if text is None else datetime.fromisoformat(text.strip())
    return (at.utcoffset() or timedelta()) // _MICROSECOND


def parse_timestamp(text: str, field: str) -> int:
    """Parse RFC 3339 or a date; UTC without an offset. Limited to the years 1 to 9999, so that it can be formatted."""
    try:
        at = datetime.fromisoformat(text.strip())
        return ((at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC) - EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        raise Invalid(f"{field}: not a time; write 2026-01-31T09:00:00Z or 2026-01-31", fields=[field]) from None


MAX_FUTURE_MS = 7 * 24 * 3600 * 1000


RECORD_SNAPSHOT = "state"
"""Origin and op of an entry that was received as a whole record; its journal sequence is its only number."""


class Stamp(NamedTuple):
    """When and where a value was written. `time` is milliseconds << 16 | counter; `origin` is the replica id (node +
    incarnation)."""

    time: int
    origin: str


def tick(now_ms: int, *floors: int) -> int:
    """Return a time at or after the wall clock and after every given time."""
    return max(now_ms << 16, *(floor + 1 for floor in floors)) if floors else now_ms << 16


def max_stamp_time(now_ms: int) -> int:
    """Return the latest stamp time that other stores still accept."""
    return ((now_ms + MAX_FUTURE_MS + 1) << 16) - 1


def is_too_far_ahead(time: int, now_ms: int, bound_ms: int = MAX_FUTURE_MS) -> bool:
    """Whether a stamp is so far in the future that its clock must be wrong."""
    return (time >> 16) > now_ms + bound_ms


def uuid7(timestamp_us: int, randomness: bytes | None = None) -> str:
    """Create a UUIDv7 that sorts by microsecond: RFC 9562 has room for the sub-millisecond part."""
    tail = bytearray(randomness or os.urandom(8))
    tail[0] = 0x80 | tail[0] & 0x3F
    milliseconds, rest = divmod(timestamp_us, 1000)
    text = f"{milliseconds & (1 << 48) - 1:012x}{0x7000 | rest * 4096 // 1000:04x}{tail.hex()}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def derive_id(*parts: str) -> str:
    """Hash the parts to an id that is the same on every node."""
    return sha256("\x00".join(parts).encode()).hexdigest()[:32]


def format_time(moment: int | None) -> str | UnsetType:
    return UNSET if moment is None else format_timestamp(moment)


def parse_time(text: str | None, field: str) -> int | None:
    return None if text is None else parse_timestamp(text, field)
