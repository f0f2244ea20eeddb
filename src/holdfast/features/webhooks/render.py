"""Terminal output of the subscription operations."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, pluralize, render_table, shorten, style


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


def render_deliveries(answer: Any) -> Iterator[str]:
    rows = [
        (
            one.subscription_id[:8],
            str(one.seq),
            one.event,
            one.state,
            str(one.attempts),
            shorten(one.error if isinstance(one.error, str) else f"HTTP {one.status}", 60),
        )
        for one in answer.deliveries
    ]
    if not rows:
        yield "No deliveries."
        return
    yield from render_table(rows, ("ID", "CHANGE", "EVENT", "STATE", "TRIES", "ANSWER"))


def render_replay(answer: Any) -> Iterator[str]:
    if answer.requeued:
        yield f"Requeued {pluralize(answer.requeued, 'dead letter')}."
    else:
        yield f"Resending everything after change {answer.place}."


def render_test_delivery(answer: Any) -> Iterator[str]:
    if answer.ok:
        yield style(f"Delivered (HTTP {answer.status}) in {answer.milliseconds} ms.", fg="green")
    else:
        yield style(escape(answer.error), fg="red")
