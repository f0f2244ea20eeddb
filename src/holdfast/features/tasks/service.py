"""Add, change, claim and finish tasks. Each occurrence ends exactly once."""

import random
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.features.tasks import model as rules
from holdfast.features.tasks import schedule as plan
from holdfast.features.tasks import store as tasks
from holdfast.features.tasks.model import Claimant, Handler, Run, Status, Task
from holdfast.features.tasks.store import Which
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict, Forbidden, Invalid, LeaseLost, NotFound
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import SECOND

NEAR = 50
"""Tasks near in time compared with a new one."""
SUGGESTED = 5


class Draft(NamedTuple):
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
    misfire: plan.Misfire = "once"
    most_attempts: int = 5
    timeout: int = 300
    unique_key: str | None = None


class Added(NamedTuple):
    """The task, whether it is new, and possible duplicates."""

    task: Task
    created: bool
    similar: list[Task]


class Finish(NamedTuple):
    """Result or error of an attempt."""

    error: str | None = None
    result: str | None = None
    tokens: int | None = None


@contextmanager
def _writing(hold: Hold) -> Iterator[Session]:
    """Transaction without a journal entry: tasks are local to this store."""
    with hold.store.writing(hold.progress.commit) as session:
        yield session
    hold.kept()


def add(hold: Hold, draft: Draft) -> Added:
    """Add a task, or return the identical one or the one with the same key. Similar tasks are listed."""
    if draft.handler != "none" and not hold.caller.may("admin"):
        raise Forbidden("Tasks with a handler run with the worker's privileges; creating one requires an admin key.")
    task = drafted(hold, draft)
    with _writing(hold) as session:
        if known := _known(session, task):
            return Added(known, created=False, similar=[])
        around = tasks.near(
            session, task.principal, task.due_at - rules.LIKE_WITHIN, task.due_at + rules.LIKE_WITHIN, NEAR
        )
        tasks.put(session, task)
    return Added(
        task, created=True, similar=[one for one in around if rules.alike(one, task.title, task.due_at)][:SUGGESTED]
    )


def drafted(hold: Hold, draft: Draft) -> Task:
    """Build a task. Raises Invalid if its schedule never comes due."""
    now = hold.now()
    first = plan.due(draft.due_at, draft.zone)
    recurrence = plan.schedule(draft.repeat, draft.zone, first)
    due = plan.after(recurrence, first - 1)
    assert due is not None, "a schedule without occurrences is rejected above"
    return Task(
        id=str(uuid.uuid4()),
        principal=draft.principal or hold.caller.agent,
        agent=hold.caller.agent,
        namespace=draft.namespace or hold.namespace,
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
        attempts=0,
        most_attempts=draft.most_attempts,
        timeout=draft.timeout,
        owner=None,
        token=0,
        claimed_at=None,
        cancel_asked=False,
        last_error=None,
        unique_key=draft.unique_key,
        created_at=now,
        updated_at=now,
    )


def _known(session: Session, made: Task) -> Task | None:
    """The existing task with the same key or the same identity."""
    if made.unique_key is not None:
        known = tasks.keyed(session, made.principal, made.unique_key)
        if known and _asked(known) != _asked(made):
            raise Conflict(
                f"unique_key: already used by task {known.id}, which differs", id=known.id, fields=["unique_key"]
            )
        return known
    return next((one for one in tasks.same(session, made) if _asked(one) == _asked(made)), None)


def _asked(task: Task) -> tuple[Any, ...]:
    """Fields in which two identical tasks agree."""
    how = (task.namespace, task.channel, task.reply_to, task.kind, task.handler, task.target, task.payload)
    return (task.title, task.first_at, task.repeat, task.zone, *how)


def show(hold: Hold, id: str, principals: Sequence[str] = ()) -> Task:
    with hold.reading() as session:
        return tasks.named(session, hold.caller, id, principals)


def browse(hold: Hold, which: Which, limit: int, skip: int) -> tuple[list[Task], int]:
    with hold.reading() as session:
        return tasks.select(session, hold.caller, which, limit, skip), tasks.count(session, hold.caller, which)


def amend(hold: Hold, id: str, principals: Sequence[str], changes: dict[str, Any]) -> Task:
    """Update a pending task. A running one cannot be changed."""
    if not changes:
        raise Invalid("Nothing to change: set at least one field.")
    with _writing(hold) as session:
        task = tasks.named(session, hold.caller, id, principals)
        _must_wait(task)
        changed_task = _changed(task, changes, hold.now())
        tasks.put(session, changed_task)
    return changed_task


def _changed(task: Task, changes: dict[str, Any], now: int) -> Task:
    """Apply changes; recompute the due time if the schedule is among them."""
    due_at = changes.pop("due_at", None)
    result = replace(task, updated_at=now, **changes)
    if result.repeat == "once":
        result = replace(result, repeat=None)
    if due_at is None and not changes.keys() & {"repeat", "zone"}:
        return result
    first = plan.due(due_at, result.zone) if due_at is not None else result.due_at
    due = plan.after(plan.schedule(result.repeat, result.zone, first), first - 1)
    return replace(result, first_at=first, due_at=due or first, ready_at=due or first, attempts=0)


def defer(hold: Hold, id: str, principals: Sequence[str], until: str) -> Task:
    """Postpone the current occurrence; later ones keep their times."""
    with _writing(hold) as session:
        task = tasks.named(session, hold.caller, id, principals)
        _must_wait(task)
        later = plan.due(until, task.zone)
        if later <= hold.now():
            raise Invalid("until: must be in the future", fields=["until"])
        put_off = replace(task, ready_at=later, updated_at=hold.now())
        tasks.put(session, put_off)
    return put_off


def cancel(hold: Hold, id: str, principals: Sequence[str]) -> Task:
    """Cancel a task and its later occurrences. A running attempt is asked to stop."""
    with _writing(hold) as session:
        task = tasks.named(session, hold.caller, id, principals)
        if task.state == "running":
            result = replace(task, cancel_asked=True, updated_at=hold.now())
        elif task.state in ("pending", "failed"):
            result = replace(task, state="cancelled", ready_at=None, updated_at=hold.now())
        else:
            raise Conflict(f"The task is already {task.state}.", state=task.state)
        tasks.put(session, result)
    return result


def retry(hold: Hold, id: str, principals: Sequence[str]) -> Task:
    """Retry a failed task now, with its attempts reset."""
    with _writing(hold) as session:
        task = tasks.named(session, hold.caller, id, principals)
        if task.state != "failed":
            raise Conflict(f"The task is {task.state}: only a failed task can be retried.", state=task.state)
        now = hold.now()
        again = replace(task, state="pending", due_at=now, ready_at=now, attempts=0, updated_at=now)
        tasks.put(session, again)
    return again


def history(hold: Hold, id: str, principals: Sequence[str], limit: int) -> tuple[Task, list[Run]]:
    with hold.reading() as session:
        task = tasks.named(session, hold.caller, id, principals)
        return task, tasks.runs(session, task.id, limit)


def claim(hold: Hold, owner: str, limit: int, seconds: int, which: Which = tasks.ALL) -> list[Task]:
    """Claim due tasks, longest overdue first. Each claim carries a fencing token and counts as an attempt.

    Abandoned tasks without attempts left end here; missed occurrences with misfire `skip` move on.
    """
    with _writing(hold) as session:
        by = Claimant(owner, hold.now(), seconds)
        claims: list[Task] = []
        while len(claims) < limit:
            found = tasks.claimable(session, hold.caller, which, by.now, limit - len(claims))
            fit = [task for task in found if _is_fit(session, task, by.now)]
            if fit:
                until = by.now + seconds * SECOND
                session.do("task_claim", ids=[task.id for task in fit], owner=owner, now=by.now, until=until)
                claims += [rules.claimed(task, by) for task in fit]
            if len(fit) == len(found):
                break
    return claims


def _is_fit(session: Session, task: Task, now: int) -> bool:
    """Whether to claim a due task. If not, its occurrence ends here."""
    if task.state == "running":
        task = _abandoned(session, task, now)
    if task.cancel_asked or (task.state == "running" and task.attempts >= task.most_attempts):
        tasks.put(session, rules.settled(task, now, error=task.last_error))
        return False
    if task.misfire == "skip" and not task.attempts and plan.is_missed(task.schedule, task.due_at, now):
        _record(session, task, now, "skipped", final=True, finish=Finish(error="Missed: no worker ran in time."))
        tasks.put(session, rules.settled(task, now))
        return False
    return True


def _abandoned(session: Session, task: Task, now: int) -> Task:
    """Record the attempt of an expired lease as lost; it may be the last one."""
    error = f"The lease of {task.owner} expired."
    last = task.cancel_asked or task.attempts >= task.most_attempts
    _record(session, task, now, "lost", final=last, finish=Finish(error=error))
    return replace(task, last_error=error)


def beat(hold: Hold, id: str, token: int, seconds: int) -> bool:
    """Extend a lease. Returns whether the task was cancelled and the holder must stop."""
    with _writing(hold) as session:
        _must_see(session, hold, id)
        row = session.row("task_beat", id=id, token=token, now=hold.now(), until=hold.now() + seconds * SECOND)
        if row is None:
            raise LeaseLost
    return bool(row[0])


def finish(hold: Hold, id: str, token: int, how: Finish) -> tuple[Task, Run]:
    """End an attempt and record it in one transaction. Raises LeaseLost for an expired lease or an older token."""
    with _writing(hold) as session:
        now = hold.now()
        task = _held(session, hold, id, token, now)
        if how.error is None:
            after = rules.settled(task, now)
        else:
            after = rules.failed(task, now, how.error[: rules.LONGEST_TEXT], random.random())  # noqa: S311 - jitter, not a secret
        final = how.error is None or after.state != "pending" or after.due_at != task.due_at
        status: Status = "completed" if how.error is None else "failed"
        run = _record(session, task, now, status, final=final, finish=how)
        tasks.put(session, after)
    return after, run


def release(hold: Hold, id: str, token: int) -> Task:
    """Return a claimed task without counting the attempt, as a stopping worker does."""
    with _writing(hold) as session:
        now = hold.now()
        task = _held(session, hold, id, token, now)
        attempts = task.attempts - 1
        free = replace(
            task, state="pending", owner=None, claimed_at=None, attempts=attempts, ready_at=now, updated_at=now
        )
        tasks.put(session, rules.settled(task, now) if task.cancel_asked else free)
    return free


def next_ready(hold: Hold) -> int | None:
    """Time at which the next task can be claimed."""
    with hold.reading() as session:
        row = session.row("task_next")
    return row[0] if row else None


def _held(session: Session, hold: Hold, id: str, token: int, now: int) -> Task:
    task = _must_see(session, hold, id)
    if task.state != "running" or task.token != token or (task.ready_at or 0) <= now:
        raise LeaseLost
    return task


def _must_see(session: Session, hold: Hold, id: str) -> Task:
    """Load a visible task by its full id."""
    task = tasks.named(session, hold.caller, id)
    if task.id != id:
        raise NotFound(f"You have no task {id!r}.")
    return task


def _must_wait(task: Task) -> None:
    if task.state != "pending":
        raise Conflict(f"The task is {task.state}: only a pending task can be changed.", state=task.state)


def _record(session: Session, task: Task, now: int, status: Status, *, final: bool, finish: Finish) -> Run:
    run = Run(
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
        result=finish.result[: rules.LONGEST_TEXT] if finish.result else finish.result,
        error=finish.error[: rules.LONGEST_TEXT] if finish.error else None,
        tokens=finish.tokens,
    )
    tasks.add_run(session, run)
    return run
