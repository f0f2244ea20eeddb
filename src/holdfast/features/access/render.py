"""Terminal output of keys, grants, the inbox and interactions."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, render_table, shorten, style


def render_new_key(answer: Any) -> Iterator[str]:
    yield style(answer.key, bold=True)
    where = (
        "all namespaces" if answer.namespaces == ["*"] else "namespaces " + ", ".join(map(escape, answer.namespaces))
    )
    access = f"{answer.scope}, {where}, agent {escape(answer.agent_id)}"
    yield f"Key {escape(answer.name)!r}: {access}, id {answer.id}."
    yield "Copy the key now: it cannot be shown again."


def render_grant(answer: Any) -> Iterator[str]:
    has = f"now has a grant ({answer.permission})" if answer.granted else "no longer has a grant"
    yield f"{escape(answer.agent_id)} {has} on {answer.id}."


def render_inbox(answer: Any) -> Iterator[str]:
    if not answer.messages:
        yield "No messages."
    for message in answer.messages:
        mark = " " if message.read else style("*", fg="yellow")
        yield f"{mark} {message.created_at[:19].replace('T', ' ')}  {escape(message.sender)}: {escape(message.title)}"
        yield "    " + shorten(message.payload, 200)


def render_recorded_interaction(answer: Any) -> Iterator[str]:
    yield f"{'Recorded' if answer.recorded else 'Already recorded'}: {answer.id} ({answer.status})"


def render_interactions(answer: Any) -> Iterator[str]:
    """Print one row for each interaction, then the totals by status."""
    if not answer.interactions:
        yield "No interactions."
        return
    rows = [
        (
            one.at[:19],
            one.status,
            _format_optional(one.principal),
            _format_optional(one.channel),
            _format_optional(one.action),
            _format_subject(one),
        )
        for one in answer.interactions
    ]
    yield from render_table(rows, ("AT", "STATUS", "PERSON", "CHANNEL", "ACTION", "ABOUT"))
    yield ", ".join(f"{count:,} {status}" for status, count in answer.totals.items())


def render_interaction(answer: Any) -> Iterator[str]:
    for name in answer.__struct_fields__:
        value = getattr(answer, name)
        if isinstance(value, str | int):
            yield f"{name}: {shorten(str(value), 400)}"


def _format_subject(one: Any) -> str:
    return shorten(_format_optional(one.reason) or _format_optional(one.input), 60)


def _format_optional(value: Any) -> str:
    return shorten(value, 40) if isinstance(value, str) else ""
