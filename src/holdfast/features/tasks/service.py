"""Add, change, claim and finish tasks. Each occurrence ends exactly once."""

import random
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.features.tasks import model, schedule
from holdfast.features.tasks import store as tasks
from holdfast.features.tasks.model import Handler, Status, Task, TaskRun
from holdfast.features.tasks.store import TASK_RUNS, TASKS, TaskFilter
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, Forbidden, Invalid, LeaseLost, NotFound
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import SECOND

MAX_COMPARED = 50
"""Tasks near in time compared with a new one."""
MAX_SUGGESTIONS = 5


class TaskDraft(NamedTuple):
    """Arguments for a new task."""

    title: str
    due_at: str
    principal: str | None = None
    namespace: str | None = None
    channel: str = ""
    reply_to: str = ""
    kind: str = "reminder"
    handler: Handler = "none"
    target: str = ""
    payload: dict[str, Any] = {}
    zone: str = "UTC"
    repeat: str | None = None
    misfire: schedule.Misfire = "once"
    most_attempts: int = 5
    timeout: int = 300
    unique_key: str | None = None


class AddResult(NamedTuple):
    """The task, whether it is new, and possible duplicates."""

    task: Task
    created: bool
    similar: list[Task]


class AttemptResult(NamedTuple):
    """Result or error of an attempt."""

    error: str | None = None
    result: str | None = None
    tokens: int | None = None


@contextmanager
def _writing(ctx: Context) -> Iterator[Session]:
    """Transaction without a journal entry: tasks are local to this store."""
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        yield session
    ctx.on_commit()


def add_task(ctx: Context, draft: TaskDraft) -> AddResult:
    """Add a task, or return the identical one or the one with the same key. Similar tasks are listed."""
    if draft.handler != "none" and not ctx.caller.has_right("admin"):
        raise Forbidden("Tasks with a handler run with the worker's privileges; creating one requires an admin key.")
    task = build_task(ctx, draft)
    with _writing(ctx) as session:
        if known := _find_existing(session, task):
            return AddResult(known, created=False, similar=[])
        around = tasks.find_near(
            session,
            task.principal,
            task.due_at - model.SIMILAR_WINDOW,
            task.due_at + model.SIMILAR_WINDOW,
            MAX_COMPARED,
        )
        TASKS.put(session, task)
    return AddResult(
        task,
        created=True,
        similar=[one for one in around if model.is_similar(one, task.title, task.due_at)][:MAX_SUGGESTIONS],
    )


def build_task(ctx: Context, draft: TaskDraft) -> Task:
    """Build a task. Raises Invalid if its schedule never comes due."""
    now = ctx.now()
    first = schedule.parse_due(draft.due_at, draft.zone)
    recurrence = schedule.parse_schedule(draft.repeat, draft.zone, first)
    due = schedule.next_after(recurrence, first - 1)
    assert due is not None, "a schedule without occurrences is rejected above"
    return Task(
        id=str(uuid.uuid4()),
        principal=draft.principal or ctx.caller.agent,
        agent=ctx.caller.agent,
        namespace=draft.namespace or ctx.namespace,
        channel=draft.channel,
        reply_to=draft.reply_to,
        title=draft.title,
        kind=draft.kind,
        handler=draft.handler,
        target=draft.target,
        payload=draft.payload,
        zone=draft.zone,
        first_at=first,
        repeat=None if draft.repeat == "once" else draft.repeat,
        misfire=draft.misfire,
        due_at=due,
        ready_at=due,
        state="pending",
        most_attempts=draft.most_attempts,
        timeout=draft.timeout,
        unique_key=draft.unique_key,
        created_at=now,
        updated_at=now,
    )


def _find_existing(session: Session, task: Task) -> Task | None:
    """The existing task with the same key or the same identity."""
    if task.unique_key is not None:
        known = tasks.find_by_key(session, task.principal, task.unique_key)
        if known and _identity(known) != _identity(task):
            raise Conflict(
                f"unique_key: already used by task {known.id}, which differs", id=known.id, fields=["unique_key"]
            )
        return known
    return next((one for one in tasks.find_same(session, task) if _identity(one) == _identity(task)), None)


def _identity(task: Task) -> tuple[Any, ...]:
    """Fields in which two identical tasks agree."""
    how = (task.namespace, task.channel, task.reply_to, task.kind, task.handler, task.target, task.payload)
    return (task.title, task.first_at, task.repeat, task.zone, *how)


def get_task(ctx: Context, id: str, principals: Sequence[str] = ()) -> Task:
    with ctx.reading() as session:
        return tasks.get_by_prefix(session, ctx.caller, id, principals)


def list_tasks(ctx: Context, filter: TaskFilter, limit: int, skip: int) -> tuple[list[Task], int]:
    with ctx.reading() as session:
        return tasks.select_tasks(session, ctx.caller, filter, limit, skip), tasks.count_tasks(
            session, ctx.caller, filter
        )


def update_task(ctx: Context, id: str, principals: Sequence[str], changes: dict[str, Any]) -> Task:
    """Update a pending task. A running one cannot be changed."""
    if not changes:
        raise Invalid("Nothing to change: set at least one field.")
    with _writing(ctx) as session:
        task = tasks.get_by_prefix(session, ctx.caller, id, principals)
        _must_be_pending(task)
        changed_task = _apply_changes(task, changes, ctx.now())
        TASKS.put(session, changed_task)
    return changed_task


def _apply_changes(task: Task, changes: dict[str, Any], now: int) -> Task:
    """Apply changes; recompute the due time if the schedule is among them."""
    due_at = changes.pop("due_at", None)
    result = replace(task, updated_at=now, **changes)
    if result.repeat == "once":
        result = replace(result, repeat=None)
    if due_at is None and not changes.keys() & {"repeat", "zone"}:
        return result
    first = schedule.parse_due(due_at, result.zone) if due_at is not None else result.due_at
    due = schedule.next_after(schedule.parse_schedule(result.repeat, result.zone, first), first - 1)
    return replace(result, first_at=first, due_at=due or first, ready_at=due or first, attempts=0)


def defer_task(ctx: Context, id: str, principals: Sequence[str], until: str) -> Task:
    """Postpone the current occurrence; later ones keep their times."""
    with _writing(ctx) as session:
        task = tasks.get_by_prefix(session, ctx.caller, id, principals)
        _must_be_pending(task)
        later = schedule.parse_due(until, task.zone)
        if later <= ctx.now():
            raise Invalid("until: must be in the future", fields=["until"])
        put_off = replace(task, ready_at=later, updated_at=ctx.now())
        TASKS.put(session, put_off)
    return put_off


def cancel_task(ctx: Context, id: str, principals: Sequence[str]) -> Task:
    """Cancel a task and its later occurrences. A running attempt is asked to stop."""
    with _writing(ctx) as session:
        task = tasks.get_by_prefix(session, ctx.caller, id, principals)
        if task.state == "running":
            result = replace(task, cancel_asked=True, updated_at=ctx.now())
        elif task.state in ("pending", "failed"):
            result = replace(task, state="cancelled", ready_at=None, updated_at=ctx.now())
        else:
            raise Conflict(f"The task is already {task.state}.", state=task.state)
        TASKS.put(session, result)
    return result


def retry_task(ctx: Context, id: str, principals: Sequence[str]) -> Task:
    """Retry a failed task now, with its attempts reset."""
    with _writing(ctx) as session:
        task = tasks.get_by_prefix(session, ctx.caller, id, principals)
        if task.state != "failed":
            raise Conflict(f"The task is {task.state}: only a failed task can be retried.", state=task.state)
        now = ctx.now()
        again = replace(task, state="pending", due_at=now, ready_at=now, attempts=0, updated_at=now)
        TASKS.put(session, again)
    return again


def list_attempts(ctx: Context, id: str, principals: Sequence[str], limit: int) -> tuple[Task, list[TaskRun]]:
    with ctx.reading() as session:
        task = tasks.get_by_prefix(session, ctx.caller, id, principals)
        return task, tasks.list_runs(session, task.id, limit)


def claim_tasks(ctx: Context, owner: str, limit: int, seconds: int, filter: TaskFilter = tasks.ALL) -> list[Task]:
    """Claim due tasks, longest overdue first. Each claim carries a fencing token and counts as an attempt.

    Abandoned tasks without attempts left end here; missed occurrences with misfire `skip` move on.
    """
    with _writing(ctx) as session:
        now = ctx.now()
        lease = {"owner": owner, "now": now, "until": now + seconds * SECOND}
        claims: list[Task] = []
        while len(claims) < limit:
            due = tasks.list_claimable(session, ctx.caller, filter, now, limit - len(claims))
            ids = [task.id for task in due if _is_claimable(session, task, now)]
            claims += sorted(
                TASKS.update(session, "task_claim", {**lease, "ids": ids}), key=lambda task: ids.index(task.id)
            )
            if len(ids) == len(due):
                break
    return claims


def _is_claimable(session: Session, task: Task, now: int) -> bool:
    """Whether to claim a due task. If not, its occurrence ends here."""
    if task.state == "running":
        task = _record_lost_attempt(session, task, now)
    if task.cancel_asked or (task.state == "running" and task.attempts >= task.most_attempts):
        TASKS.put(session, model.end_occurrence(task, now, error=task.last_error))
        return False
    if task.misfire == "skip" and not task.attempts and schedule.is_missed(task.schedule, task.due_at, now):
        _record_run(
            session, task, now, "skipped", final=True, result=AttemptResult(error="Missed: no worker ran in time.")
        )
        TASKS.put(session, model.end_occurrence(task, now))
        return False
    return True


def _record_lost_attempt(session: Session, task: Task, now: int) -> Task:
    """Record the attempt of an expired lease as lost; it may be the last one."""
    error = f"The lease of {task.owner} expired."
    last = task.cancel_asked or task.attempts >= task.most_attempts
    _record_run(session, task, now, "lost", final=last, result=AttemptResult(error=error))
    return replace(task, last_error=error)


def extend_lease(ctx: Context, id: str, token: int, seconds: int) -> bool:
    """Extend a lease. Returns whether the task was cancelled and the holder must stop."""
    with _writing(ctx) as session:
        _get_by_full_id(session, ctx, id)
        row = session.row("task_heartbeat", id=id, token=token, now=ctx.now(), until=ctx.now() + seconds * SECOND)
        if row is None:
            raise LeaseLost
    return bool(row[0])


def finish_task(ctx: Context, id: str, token: int, result: AttemptResult) -> tuple[Task, TaskRun]:
    """End an attempt and record it in one transaction. Raises LeaseLost for an expired lease or an older token."""
    with _writing(ctx) as session:
        now = ctx.now()
        task = _require_lease(session, ctx, id, token, now)
        if result.error is None:
            after = model.end_occurrence(task, now)
        else:
            after = model.fail_attempt(task, now, result.error[: model.MAX_TEXT_CHARS], random.random())  # noqa: S311 - jitter, not a secret
        final = result.error is None or after.state != "pending" or after.due_at != task.due_at
        status: Status = "completed" if result.error is None else "failed"
        run = _record_run(session, task, now, status, final=final, result=result)
        TASKS.put(session, after)
    return after, run


def release_task(ctx: Context, id: str, token: int) -> Task:
    """Return a claimed task without counting the attempt, as a stopping worker does."""
    with _writing(ctx) as session:
        now = ctx.now()
        task = _require_lease(session, ctx, id, token, now)
        attempts = task.attempts - 1
        free = replace(
            task, state="pending", owner=None, claimed_at=None, attempts=attempts, ready_at=now, updated_at=now
        )
        TASKS.put(session, model.end_occurrence(task, now) if task.cancel_asked else free)
    return free


def find_next_ready(ctx: Context) -> int | None:
    """Time at which the next task can be claimed."""
    with ctx.reading() as session:
        row = session.row("task_next_ready")
    return row[0] if row else None


def _require_lease(session: Session, ctx: Context, id: str, token: int, now: int) -> Task:
    task = _get_by_full_id(session, ctx, id)
    if task.state != "running" or task.token != token or (task.ready_at or 0) <= now:
        raise LeaseLost
    return task


def _get_by_full_id(session: Session, ctx: Context, id: str) -> Task:
    """Load a visible task by its full id."""
    task = tasks.get_by_prefix(session, ctx.caller, id)
    if task.id != id:
        raise NotFound(f"You have no task {id!r}.")
    return task


def _must_be_pending(task: Task) -> None:
    if task.state != "pending":
        raise Conflict(f"The task is {task.state}: only a pending task can be changed.", state=task.state)


def _record_run(
    session: Session, task: Task, now: int, status: Status, *, final: bool, result: AttemptResult
) -> TaskRun:
    run = TaskRun(
        id=str(uuid.uuid4()),
        task=task.id,
        due_at=task.due_at,
        attempt=task.attempts,
        owner=task.owner or "",
        token=task.token,
        started_at=task.claimed_at or now,
        finished_at=now,
        status=status,
        final=final,
        result=result.result[: model.MAX_TEXT_CHARS] if result.result else result.result,
        error=result.error[: model.MAX_TEXT_CHARS] if result.error else None,
        tokens=result.tokens,
    )
    TASK_RUNS.add(session, run)
    return run


def list_open_tasks(ctx: Context, principal: str, limit: int) -> list[Task]:
    """List the pending and running tasks of a principal."""
    with ctx.reading() as session:
        which = TaskFilter(principals=(principal,), states=("pending", "running"))
        return tasks.select_tasks(session, ctx.caller, which, limit)
