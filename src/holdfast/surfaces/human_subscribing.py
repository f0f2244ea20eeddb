"""Subscriptions for a person."""

from collections.abc import Iterator
from typing import Any

import click

from .human import many, one_line, safe, table


def subscribed(answer: Any) -> Iterator[str]:
    yield click.style(f"{answer.id}  {answer.state}", bold=True)
    yield f"  {safe(answer.url)}"
    yield f"  {', '.join(answer.events)} after change {answer.place}"
    if isinstance(answer.secret, str):
        yield f"  secret: {answer.secret}"
        yield click.style("  Keep the secret: it is not shown again.", fg="yellow")
    yield "  Events go out while `holdfast serve` or `holdfast worker` runs."


def listed(answer: Any) -> Iterator[str]:
    rows = [
        (one.id, one.state, str(one.place), str(one.delivered), str(one.dead), one_line(one.url, 60))
        for one in answer.subscriptions
    ]
    if not rows:
        yield "There are none."
        return
    yield from table(rows, ("ID", "STATE", "PLACE", "DELIVERED", "DEAD", "URL"))
    for one in answer.subscriptions:
        if isinstance(said := one.why if one.state == "ended" else one.last_error, str):
            yield click.style(f"{one.id[:8]}: {safe(said)}", fg="yellow")


def delivered(answer: Any) -> Iterator[str]:
    rows = [
        (
            one.subscription_id[:8],
            str(one.seq),
            one.event,
            one.state,
            str(one.attempts),
            one_line(one.error if isinstance(one.error, str) else f"HTTP {one.status}", 60),
        )
        for one in answer.deliveries
    ]
    if not rows:
        yield "There are none."
        return
    yield from table(rows, ("ID", "CHANGE", "EVENT", "STATE", "TRIES", "ANSWER"))


def replaying(answer: Any) -> Iterator[str]:
    if answer.requeued:
        yield f"{many(answer.requeued, 'dead letter')} will be sent again."
    else:
        yield f"Everything after change {answer.place} will be sent again."


def tested(answer: Any) -> Iterator[str]:
    if answer.ok:
        yield click.style(f"Taken (HTTP {answer.status}) in {answer.milliseconds} ms.", fg="green")
    else:
        yield click.style(safe(answer.error), fg="red")
