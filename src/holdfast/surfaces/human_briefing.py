"""What an agent should know, for a person."""

from collections.abc import Iterator
from typing import Any

import click

from .human import safe


def built(answer: Any) -> Iterator[str]:
    """The block as it would be pasted, and what is not in it."""
    yield safe(answer.text) if answer.text else "There is nothing to say."
    for part in answer.parts:
        if part.dropped or isinstance(part.degraded, str):
            why = f": {safe(part.degraded)}" if isinstance(part.degraded, str) else f": {part.dropped} did not fit"
            yield click.style(f"{part.name}{why}", fg="yellow")
