"""What a command prints: its answer, progress, errors, and the exit code."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

import click

from holdfast.kernel.context import Progress
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.terminal import escape, render_columns, render_fields
from holdfast.operations import Operation
from holdfast.surfaces import error_responses as wire


def print_answer(op: Operation, answer: Any, wanted: dict[str, Any]) -> None:
    if wanted["json"]:
        click.echo(wire.encode(answer))
        return
    for line in _render(op, answer):
        click.echo(line, nl=isinstance(line, str))


def _render(op: Operation, answer: Any) -> Iterator[str | bytes]:
    """Render an answer for people: by the operation's own renderer, by its columns, or field by field."""
    if op.human:
        module, function = op.human.split(":")
        return getattr(import_module(module), function)(answer)  # type: ignore[no-any-return]
    return render_columns(answer, op.columns, op.empty) if op.columns else render_fields(answer)


@contextmanager
def progress_of(name: str, wanted: dict[str, Any]) -> Iterator[Progress]:
    """Show a progress bar on a terminal; show nothing in a pipe."""
    if wanted["json"] or sys.stderr is None or not sys.stderr.isatty():
        yield Progress()
        return
    with ExitStack() as stack:
        bars: list[Any] = []

        def report(done: int, total: int, what: str) -> None:
            if not bars:
                bars.append(stack.enter_context(click.progressbar(length=1, file=sys.stderr)))
            bars[0].length, bars[0].label = max(total, 1), what or name
            bars[0].update(done - bars[0].pos)

        yield Progress(report)


def print_error(error: HoldfastError, as_json: bool, hint: str = "") -> int:

    if as_json:
        message = error.message.encode(errors="backslashreplace").decode()
        click.echo(wire.encode(error.to_json() | {"error": message}), err=True)
    else:
        if hint:
            click.echo(hint, err=True)
        click.echo(f"{click.style('error', fg='red')}: {escape(error.message)} [{error.code}]", err=True)
    return wire.EXIT[error.code]


def exit_code_of(answer: Any) -> int:
    """Return the exit code: a batch with rejected items or a failed check is not a success."""
    rejected = any(one.outcome == "rejected" for one in getattr(answer, "outcomes", ()))
    number = getattr(answer, "rejected", 0)
    if rejected or (number and number is not True) or getattr(answer, "refused", None):
        return wire.PARTLY_REJECTED_EXIT
    return 1 if getattr(answer, "intact", True) is False or getattr(answer, "status", "ok") == "critical" else 0


def exit_with(code: int) -> None:
    if code:
        click.get_current_context().exit(code)
