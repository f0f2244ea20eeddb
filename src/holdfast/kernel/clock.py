"""Hybrid logical clock: orders changes of several stores without a common clock."""

from typing import NamedTuple

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
