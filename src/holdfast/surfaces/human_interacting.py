"""What was decided, for a person."""

from collections.abc import Iterator
from typing import Any

from .human import one_line, table


def recorded(answer: Any) -> Iterator[str]:
    yield f"{'Recorded' if answer.recorded else 'Recorded before'}: {answer.id} ({answer.status})"


def listed(answer: Any) -> Iterator[str]:
    """A line for each, and how many there are in all."""
    if not answer.interactions:
        yield "Nothing was recorded."
        return
    rows = [
        (one.at[:19], one.status, _text(one.principal), _text(one.channel), _text(one.action), _about(one))
        for one in answer.interactions
    ]
    yield from table(rows, ("AT", "DECISION", "WHO", "WHERE", "WHAT", "ABOUT"))
    yield ", ".join(f"{count:,} {status}" for status, count in answer.totals.items())


def shown(answer: Any) -> Iterator[str]:
    for name in answer.__struct_fields__:
        value = getattr(answer, name)
        if isinstance(value, str | int):
            yield f"{name}: {one_line(str(value), 400)}"


def _about(one: Any) -> str:
    return one_line(_text(one.reason) or _text(one.input), 60)


def _text(value: Any) -> str:
    return one_line(value, 40) if isinstance(value, str) else ""
