"""Tasks for a person."""

from collections.abc import Iterator
from typing import Any

import click

from .human import one_line, safe, table

COLOURS = {"pending": None, "running": "cyan", "done": "green", "failed": "red", "cancelled": "yellow"}


def added(answer: Any) -> Iterator[str]:
    """What is planned now, and what may mean the same."""
    if not answer.created:
        yield click.style("It is planned already:", fg="yellow")
    yield from shown(answer.task)
    for one in answer.similar:
        yield click.style(f"Perhaps the same: {one.id[:8]}  {one.due_at}  {one_line(one.title)}", fg="yellow")


def listed(answer: Any) -> Iterator[str]:
    rows = [
        (task.id[:8], task.due_at[:16] + "Z", task.state, task.repeat or "once", one_line(task.title, 60))
        for task in answer.tasks
    ]
    if not rows:
        yield "There are none."
        return
    yield from table(rows, ("ID", "DUE", "STATE", "REPEAT", "TITLE"))
    if answer.total > answer.count:
        yield f"{answer.count} of {answer.total}"


def shown(task: Any) -> Iterator[str]:
    """Everything about one task."""
    yield click.style(f"{task.id}  {task.state}", bold=True, fg=COLOURS[task.state])
    yield f"  {one_line(task.title, 200)}"
    again = f", {safe(task.repeat)} ({task.zone})" if isinstance(task.repeat, str) else ""
    yield f"  due {task.due_at}{again}"
    for name in ("ready_at", "owner", "lease_until", "target", "last_error"):
        if isinstance(value := getattr(task, name), str):
            yield f"  {name.replace('_', ' ')}: {one_line(value, 200)}"
    if task.attempts:
        yield f"  tries: {task.attempts} of {task.most_attempts}"


def runs(answer: Any) -> Iterator[str]:
    rows = [
        (run.started_at[:19] + "Z", run.status, str(run.attempt), one_line(run.owner, 30), one_line(_said(run), 60))
        for run in answer.runs
    ]
    if not rows:
        yield "Nobody tried it yet."
        return
    yield from table(rows, ("STARTED", "STATUS", "TRY", "OWNER", "RESULT"))


def _said(run: Any) -> str:
    return next((said for said in (run.error, run.result) if isinstance(said, str)), "")


def claimed(answer: Any) -> Iterator[str]:
    if not answer.claimed:
        yield "Nothing is due."
    for one in answer.claimed:
        yield f"{one.task.id}  token {one.token}  until {one.task.lease_until}  {one_line(one.task.title)}"


def finished(answer: Any) -> Iterator[str]:
    yield f"{answer.run.status}, try {answer.run.attempt}"
    yield from shown(answer.task)
