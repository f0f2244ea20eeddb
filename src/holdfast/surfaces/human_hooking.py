"""Lifecycle hooks for a person."""

from collections.abc import Iterator
from typing import Any

import click

from .human import one_line, safe, table

COLOURS = {"allow": "green", "modify": "cyan", "ask": "yellow", "deny": "red"}


def listed(answer: Any) -> Iterator[str]:
    rows = [
        (
            hook.event,
            one_line(hook.name, 30),
            ",".join(hook.match),
            f"{hook.timeout:g} s",
            hook.on_error if isinstance(hook.on_error, str) else "",
        )
        for hook in answer.hooks
    ]
    if not rows:
        yield "There are none."
        return
    yield from table(rows, ("EVENT", "HOOK", "MATCH", "TIMEOUT", "ON ERROR"))


def tested(answer: Any) -> Iterator[str]:
    for hook in answer.hooks:
        said = next((word for word in (hook.error, hook.reason) if isinstance(word, str)), "")
        yield click.style(f"{hook.decision:<7}", fg=COLOURS[hook.decision]) + (
            f" {safe(hook.name)} ({hook.milliseconds} ms)" + (f": {safe(said)}" if said else "")
        )
    for name in answer.passed_over:
        yield f"        {safe(name)}: for other namespaces"
    yield click.style(f"So: {answer.decision}", bold=True, fg=COLOURS[answer.decision])
