"""People and agents for a person."""

from collections.abc import Iterator
from typing import Any

import click

from .human import one_line, safe, table


def shown(answer: Any) -> Iterator[str]:
    yield click.style(safe(answer.principal), bold=True) + (f"  {one_line(answer.display)}" if answer.display else "")
    for name in answer.names[1:]:
        yield f"  also {safe(name)}"


def counted(answer: Any) -> Iterator[str]:
    numbers = {name: getattr(answer, name) for name in ("conversations", "messages", "observations", "facts")}
    yield f"{safe(answer.principal)}: " + ", ".join(f"{number:,} {name}" for name, number in numbers.items())


def listed(answer: Any) -> Iterator[str]:
    if not answer.names:
        yield "Nothing was said of anybody."
        return
    rows = [
        (one_line(one.name, 60), one_line(one.stands_for or "", 60), one_line(one.display, 60)) for one in answer.names
    ]
    yield from table(rows, ("NAME", "STANDS FOR", "CALLED"))


def forgotten(answer: Any) -> Iterator[str]:
    yield f"Forgotten at {answer.at} by {safe(answer.agent_id)}: what remains is {', '.join(answer.ids)}."
    yield "  " + ", ".join(f"{number} {what.replace('_', ' ')}" for what, number in answer.counts.items() if number)
