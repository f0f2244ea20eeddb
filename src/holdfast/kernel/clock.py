"""Order without a common clock: hybrid logical stamps."""

from typing import NamedTuple

FUTURE_BOUND_MS = 7 * 24 * 3600 * 1000
STATE = "state"
"""The origin, and the op, of what came as a whole record: its place in a journal is its only number."""


class Stamp(NamedTuple):
    """When and where a value was written. `time` is milliseconds << 16 | counter; `origin` is node + incarnation."""

    time: int
    origin: str


def tick(now_ms: int, *floors: int) -> int:
    """A time at or after the wall clock and after every floor."""
    return max(now_ms << 16, *(floor + 1 for floor in floors)) if floors else now_ms << 16


def latest(now_ms: int) -> int:
    """The last time that no other store holds to be of a wrong clock."""
    return ((now_ms + FUTURE_BOUND_MS + 1) << 16) - 1


def too_far(time: int, now_ms: int, bound_ms: int = FUTURE_BOUND_MS) -> bool:
    """Whether a stamp's time lies so far ahead that its clock must have been wrong."""
    return (time >> 16) > now_ms + bound_ms
