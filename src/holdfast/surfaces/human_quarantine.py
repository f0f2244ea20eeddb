"""What could not be taken from other stores, in a person's words."""

from collections.abc import Iterator
from typing import Any

import click
from msgspec import UNSET

from .human import many, one_line, safe, table


def page(answer: Any) -> Iterator[str]:
    if not answer.quarantined:
        yield "Nothing is in quarantine."
        return
    rows = (
        (one.id, one.reason, safe(one.kind), safe(one.record), _sender(one), str(one.tries), one_line(one.detail, 60))
        for one in answer.quarantined
    )
    yield from table(rows, ("ID", "REASON", "KIND", "RECORD", "FROM", "TRIES", "DETAIL"))
    if answer.total > answer.count:
        yield f"{answer.count} of {answer.total}"


def whole(answer: Any) -> Iterator[str]:
    yield click.style(f"{safe(answer.kind)} {safe(answer.record)}: {answer.reason}", bold=True)
    yield safe(answer.detail)
    yield f"change {answer.number} of {safe(answer.origin)}, {safe(answer.action)} by {safe(answer.actor)}"
    yield f"made {answer.made_at}, sent by {_sender(answer)}"
    yield f"here since {answer.kept_at}, tried {many(answer.tries, 'time')}, last {answer.tried_at}"
    if answer.says is not UNSET:
        yield safe(answer.says)


def retried(answer: Any) -> Iterator[str]:
    yield f"{answer.applied} taken, {answer.rejected} still in quarantine"
    for one in answer.outcomes:
        if one.outcome == "rejected":
            text = f"rejected: {safe(one.kind)} {safe(one.record)}: {safe(one.detail)} [{one.reason}]"
            yield click.style(text, fg="red")


def dropped(answer: Any) -> Iterator[str]:
    for one in answer.dropped:
        yield f"Dropped {safe(one.kind)} {safe(one.record)}, change {one.number} of {safe(one.origin)} [{one.reason}]"


def _sender(one: Any) -> str:
    return safe(one.peer if one.peer_name is UNSET else one.peer_name)
