"""A journal position encoded in a timestamp, for peers whose only cursor is the time of the last row they received."""

import re
from typing import NamedTuple

from holdfast.kernel.timestamps import format_timestamp, parse_timestamp

SEQ_DIGITS = 12
_CURSOR = re.compile(rf"(.+\.[0-9]{{6}})([0-9]{{{SEQ_DIGITS}}})(Z|[+-]00:00)")


class Cursor(NamedTuple):
    """A time, and the journal position encoded in it, if any."""

    at: int
    seq: int | None


def format_cursor(recorded_at: int, seq: int) -> str:
    """Format a time with the journal position as digits after the microseconds: ordered and unique."""
    return f"{format_timestamp(recorded_at)[:-1]}{seq:0{SEQ_DIGITS}d}Z"


def parse_cursor(text: str, field: str = "since") -> Cursor:
    """Parse a cursor or a plain time; a space is a plus decoded from a query."""
    text = text.strip().replace(" ", "+")
    if found := _CURSOR.fullmatch(text):
        return Cursor(parse_timestamp(found[1] + "Z", field), int(found[2]))
    return Cursor(parse_timestamp(text, field), None)
