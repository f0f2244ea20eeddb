"""Projects for a person."""

from collections.abc import Iterator
from typing import Any

import click

from .human import one_line, safe, table


def which(answer: Any) -> Iterator[str]:
    """The namespace first, so that a script can take it; then why."""
    yield click.style(safe(answer.namespace), bold=True)
    for reason in answer.why:
        yield f"  {one_line(reason, 400)}"
    for name in answer.names[1:]:
        yield f"  also {safe(name)}"


def names(answer: Any) -> Iterator[str]:
    yield click.style(safe(answer.namespace), bold=True)
    for name in answer.names[1:]:
        yield f"  also {safe(name)}"


def merged(answer: Any) -> Iterator[str]:
    if not answer.merged:
        yield "No project was merged into another."
        return
    yield from table([(safe(one.alias), safe(one.project)) for one in answer.merged], ("PROJECT", "IS"))
