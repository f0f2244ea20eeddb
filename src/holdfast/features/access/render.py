"""Terminal output of new keys and the inbox."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, shorten, style


def render_new_key(answer: Any) -> Iterator[str]:
    yield style(answer.key, bold=True)
    where = (
        "all namespaces" if answer.namespaces == ["*"] else "namespaces " + ", ".join(map(escape, answer.namespaces))
    )
    access = f"{answer.scope}, {where}, agent {escape(answer.agent_id)}"
    yield f"Key {escape(answer.name)!r}: {access}, id {answer.id}."
    yield "Copy the key now: it cannot be shown again."


def render_inbox(answer: Any) -> Iterator[str]:
    if not answer.messages:
        yield "No messages."
    for message in answer.messages:
        mark = " " if message.read else style("*", fg="yellow")
        yield f"{mark} {message.created_at[:19].replace('T', ' ')}  {escape(message.sender)}: {escape(message.title)}"
        yield "    " + shorten(message.payload, 200)
