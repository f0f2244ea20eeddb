"""Terminal output of the lifecycle hook operations."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, render_table, shorten, style

COLOURS = {"allow": "green", "modify": "cyan", "ask": "yellow", "deny": "red"}


def render_hooks(answer: Any) -> Iterator[str]:
    rows = [
        (
            hook.event,
            shorten(hook.name, 30),
            ",".join(hook.match),
            f"{hook.timeout:g} s",
            hook.on_error if isinstance(hook.on_error, str) else "",
        )
        for hook in answer.hooks
    ]
    if not rows:
        yield "No hooks."
        return
    yield from render_table(rows, ("EVENT", "HOOK", "MATCH", "TIMEOUT", "ON ERROR"))


def render_hook_test(answer: Any) -> Iterator[str]:
    for hook in answer.hooks:
        detail = next((word for word in (hook.error, hook.reason) if isinstance(word, str)), "")
        yield style(f"{hook.decision:<7}", fg=COLOURS[hook.decision]) + (
            f" {escape(hook.name)} ({hook.milliseconds} ms)" + (f": {escape(detail)}" if detail else "")
        )
    for name in answer.passed_over:
        yield f"        {escape(name)}: other namespaces only"
    yield style(f"Decision: {answer.decision}", bold=True, fg=COLOURS[answer.decision])
