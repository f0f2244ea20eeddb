"""Terminal output of the context operations."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, style


def render_query_context(answer: Any) -> Iterator[str]:
    """Print the block, or the reason why it is empty."""
    yield from map(escape, answer.text.splitlines()) if answer.text else [answer.reason]
    if answer.degraded:
        yield style(answer.degraded, fg="yellow")


def render_reply_context(answer: Any) -> Iterator[str]:
    """Print the block as an agent gets it, then the incomplete parts."""
    yield escape(answer.text) if answer.text else "No context found."
    for part in answer.parts:
        if part.dropped or isinstance(part.degraded, str):
            why = f": {escape(part.degraded)}" if isinstance(part.degraded, str) else f": {part.dropped} did not fit"
            yield style(f"{part.name}{why}", fg="yellow")
