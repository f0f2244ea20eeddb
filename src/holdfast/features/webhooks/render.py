"""Terminal output of the subscription operations."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, style


def render_subscription(answer: Any) -> Iterator[str]:
    yield style(f"{answer.id}  {answer.state}", bold=True)
    yield f"  {escape(answer.url)}"
    yield f"  {', '.join(answer.events)} after change {answer.place}"
    if isinstance(answer.secret, str):
        yield f"  secret: {answer.secret}"
        yield style("  Save the secret: it is not shown again.", fg="yellow")
    yield "  Events are delivered while `holdfast serve` or `holdfast task worker` runs."
