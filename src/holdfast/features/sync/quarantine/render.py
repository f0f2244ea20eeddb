"""Terminal output of the quarantine operations."""

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from holdfast.kernel.terminal import escape, pluralize, render_table, shorten, style


def render_quarantine(answer: Any) -> Iterator[str]:
    if not answer.quarantined:
        yield "The quarantine is empty."
        return
    rows = (
        (
            one.id,
            one.reason,
            escape(one.kind),
            escape(one.record),
            _get_sender(one),
            str(one.tries),
            shorten(one.detail, 60),
        )
        for one in answer.quarantined
    )
    yield from render_table(rows, ("ID", "REASON", "KIND", "RECORD", "FROM", "TRIES", "DETAIL"))
    if answer.total > answer.count:
        yield f"{answer.count} of {answer.total}"


def render_quarantined_change(answer: Any) -> Iterator[str]:
    yield style(f"{escape(answer.kind)} {escape(answer.record)}: {answer.reason}", bold=True)
    yield escape(answer.detail)
    yield f"change {answer.number} of {escape(answer.origin)}, {escape(answer.action)} by {escape(answer.actor)}"
    yield f"made {answer.made_at}, sent by {_get_sender(answer)}"
    yield f"in quarantine since {answer.kept_at}, tried {pluralize(answer.tries, 'time')}, last {answer.tried_at}"
    if answer.says is not UNSET:
        yield escape(answer.says)


def render_quarantine_retry(answer: Any) -> Iterator[str]:
    yield f"{answer.applied} applied, {answer.rejected} still in quarantine"
    for one in answer.outcomes:
        if one.outcome == "rejected":
            text = f"rejected: {escape(one.kind)} {escape(one.record)}: {escape(one.detail)} [{one.reason}]"
            yield style(text, fg="red")


def render_quarantine_drop(answer: Any) -> Iterator[str]:
    for one in answer.dropped:
        change = f"change {one.number} of {escape(one.origin)}"
        yield f"Dropped {escape(one.kind)} {escape(one.record)}, {change} [{one.reason}]"


def _get_sender(one: Any) -> str:
    return escape(one.peer if one.peer_name is UNSET else one.peer_name)
