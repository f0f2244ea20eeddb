"""A journal position encoded in a timestamp, for peers whose only cursor is the time of the last row they received."""

import re
from typing import NamedTuple

from holdfast.kernel.timestamps import from_text, to_text

DIGITS = 12
_PLACE = re.compile(rf"(.+\.[0-9]{{6}})([0-9]{{{DIGITS}}})(Z|[+-]00:00)")


class Since(NamedTuple):
    """A time, and the journal position encoded in it, if any."""

    at: int
    seq: int | None


def written(kept_at: int, seq: int) -> str:
    """Format a time with the journal position as digits after the microseconds: ordered and unique."""
    return f"{to_text(kept_at)[:-1]}{seq:0{DIGITS}d}Z"


def read(text: str, field: str = "since") -> Since:
    """Parse a cursor or a plain time; a space is a plus decoded from a query."""
    text = text.strip().replace(" ", "+")
    if found := _PLACE.fullmatch(text):
        return Since(from_text(found[1] + "Z", field), int(found[2]))
    return Since(from_text(text, field), None)
