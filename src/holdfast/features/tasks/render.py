"""Terminal output of the task operations."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, render_table, shorten, style

COLOURS = {"pending": None, "running": "cyan", "done": "green", "failed": "red", "cancelled": "yellow"}


def render_added_task(answer: Any) -> Iterator[str]:
    """Print the new or existing task, then possible duplicates."""
    if not answer.created:
        yield style("Task already exists:", fg="yellow")
    yield from render_task(answer.task)
    for one in answer.similar:
        yield style(f"Possible duplicate: {one.id[:8]}  {one.due_at}  {shorten(one.title)}", fg="yellow")


def render_tasks(answer: Any) -> Iterator[str]:
    rows = [
        (task.id[:8], task.due_at[:16] + "Z", task.state, task.repeat or "once", shorten(task.title, 60))
        for task in answer.tasks
    ]
    if not rows:
        yield "No tasks."
        return
    yield from render_table(rows, ("ID", "DUE", "STATE", "REPEAT", "TITLE"))
    if answer.total > answer.count:
        yield f"{answer.count} of {answer.total}"


def render_task(task: Any) -> Iterator[str]:
    """Print one task in full."""
    yield style(f"{task.id}  {task.state}", bold=True, fg=COLOURS[task.state])
    yield f"  {shorten(task.title, 200)}"
    again = f", {escape(task.repeat)} ({task.zone})" if isinstance(task.repeat, str) else ""
    yield f"  due {task.due_at}{again}"
    for name in ("ready_at", "owner", "lease_until", "target", "last_error"):
        if isinstance(value := getattr(task, name), str):
            yield f"  {name.replace('_', ' ')}: {shorten(value, 200)}"
    if task.attempts:
        yield f"  attempts: {task.attempts} of {task.most_attempts}"


def render_task_runs(answer: Any) -> Iterator[str]:
    rows = [
        (run.started_at[:19] + "Z", run.status, str(run.attempt), shorten(run.owner, 30), shorten(_get_result(run), 60))
        for run in answer.runs
    ]
    if not rows:
        yield "No attempts yet."
        return
    yield from render_table(rows, ("STARTED", "STATUS", "ATTEMPT", "OWNER", "RESULT"))


def _get_result(run: Any) -> str:
    return next((text for text in (run.error, run.result) if isinstance(text, str)), "")


def render_claims(answer: Any) -> Iterator[str]:
    if not answer.claimed:
        yield "No tasks due."
    for one in answer.claimed:
        yield f"{one.task.id}  token {one.token}  until {one.task.lease_until}  {shorten(one.task.title)}"


def render_finished_task(answer: Any) -> Iterator[str]:
    yield f"{answer.run.status}, attempt {answer.run.attempt}"
    yield from render_task(answer.task)
