"""Terminal output of the subscription operations."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, render_table, shorten, style


def render_subscription(answer: Any) -> Iterator[str]:
    yield style(f"{answer.id}  {answer.state}", bold=True)
    yield f"  {escape(answer.url)}"
    yield f"  {', '.join(answer.events)} after change {answer.place}"
    if isinstance(answer.secret, str):
        yield f"  secret: {answer.secret}"
        yield style("  Save the secret: it is not shown again.", fg="yellow")
    yield "  Events are delivered while `holdfast serve` or `holdfast task worker` runs."


def render_subscriptions(answer: Any) -> Iterator[str]:
    rows = [
        (one.id, one.state, str(one.place), str(one.delivered), str(one.dead), shorten(one.url, 60))
        for one in answer.subscriptions
    ]
    if not rows:
        yield "No subscriptions."
        return
    yield from render_table(rows, ("ID", "STATE", "PLACE", "DELIVERED", "DEAD", "URL"))
    for one in answer.subscriptions:
        if isinstance(problem := one.why if one.state == "ended" else one.last_error, str):
            yield style(f"{one.id[:8]}: {escape(problem)}", fg="yellow")
