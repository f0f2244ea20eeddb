"""A place in a journal, written as a moment: for peers whose only cursor is the time of the last row they were told."""

import re
from typing import NamedTuple

from holdfast.kernel.timestamps import from_text, to_text

DIGITS = 12
_PLACE = re.compile(rf"(.+\.[0-9]{{6}})([0-9]{{{DIGITS}}})(Z|[+-]00:00)")


class Since(NamedTuple):
    """A moment, and the place in the journal that was told with it, if there was one."""

    at: int
    seq: int | None


def written(kept_at: int, seq: int) -> str:
    """A moment to the microsecond, whose further digits are the place: in order, and no two the same."""
    return f"{to_text(kept_at)[:-1]}{seq:0{DIGITS}d}Z"


def read(text: str, field: str = "since") -> Since:
    """What somebody sends back, whoever wrote it; a space is a plus that a query has turned into one."""
    text = text.strip().replace(" ", "+")
    if found := _PLACE.fullmatch(text):
        return Since(from_text(found[1] + "Z", field), int(found[2]))
    return Since(from_text(text, field), None)
