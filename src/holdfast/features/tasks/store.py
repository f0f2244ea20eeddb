"""Tasks and their runs: tables of this store, and queries limited to what the caller can see."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.features.people.resolve_names import list_all_names, list_names
from holdfast.features.tasks.model import MIN_PREFIX_CHARS, State, Task, TaskRun, unclaim_task
from holdfast.features.tasks.schedule import parse_schedule
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import AmbiguousId, Forbidden, Invalid, NotFound
from holdfast.kernel.storage.local_table import Export, LocalTable, Owner, Retention, must_be_free
from holdfast.kernel.storage.port import Session, SqlPart

MAX_CHAR = "\U0010ffff"


def _validate_task(task: Task) -> Task:
    """Check the schedule of an imported task and set `ready_at`."""
    parse_schedule(task.repeat, task.zone, task.first_at)
    waits = task.state in ("pending", "running")
    return replace(task, ready_at=(task.ready_at or task.due_at) if waits else None)


def _admit_task(session: Session, task: Task, trusted: bool) -> Task:
    """A handler runs with the worker's privileges; a unique key belongs to one task."""
    if task.handler != "none" and not trusted:
        raise Forbidden("handler: tasks with a handler are imported from a trusted source only.")
    if task.unique_key is not None:
        params = {"principals": [task.principal], "unique_key": task.unique_key}
        must_be_free("unique_key", TASKS.first(session, ("task.of_principal", "task.by_unique_key"), params), task.id)
    return task


def _validate_run(run: TaskRun) -> TaskRun:
    if run.finished_at < run.started_at:
        raise Invalid("finished_at: must not be before started_at", fields=["finished_at"])
    return run


def _admit_run(session: Session, run: TaskRun, trusted: bool) -> TaskRun:
    """One attempt ends an occurrence."""
    if run.final:
        params = {"task": run.task, "due_at": run.due_at}
        must_be_free("final", TASK_RUNS.first(session, ("task_run.ending",), params), run.id)
    return run


TASKS = LocalTable(
    Task,
    "task",
    plural="tasks",
    owner=Owner("created_at"),
    export=Export(
        "tasks",
        latest=lambda task: task.updated_at,
        release=unclaim_task,
        is_leased=lambda task, now: task.state == "running",
        validate=_validate_task,
        admit=_admit_task,
    ),
)
TASK_RUNS = LocalTable(
    TaskRun,
    "task_run",
    plural="task_runs",
    parent=(TASKS, "task"),
    retention=Retention("task_runs", "finished_at", part="task_run.ended"),
    updates=(),
    export=Export("task_runs", validate=_validate_run, admit=_admit_run),
)


class TaskFilter(NamedTuple):
    """Filter over the tasks visible to the caller."""

    principals: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    due: int | None = None
    """Only tasks that can be claimed at this time."""
    handlers: tuple[str, ...] = ()


ALL = TaskFilter()


def select_tasks(session: Session, caller: Caller, filter: TaskFilter, limit: int, skip: int = 0) -> list[Task]:
    """Visible tasks by due time."""
    parts, params = _build_clauses(session, caller, filter)
    return TASKS.select(session, [*parts, "task.page"], params | {"limit": limit, "skip": skip})


def count_tasks(session: Session, caller: Caller, filter: TaskFilter) -> int:
    return TASKS.count(session, *_build_clauses(session, caller, filter))


def get_by_prefix(session: Session, caller: Caller, id: str, principals: Sequence[str] = ()) -> Task:
    """Load the visible task with this id or unique prefix."""
    if len(id) < MIN_PREFIX_CHARS:
        raise Invalid(f"id: must have at least {MIN_PREFIX_CHARS} characters", fields=["id"])
    parts, params = _build_clauses(session, caller, TaskFilter(principals=tuple(principals)))
    found = TASKS.select(session, [*parts, "task.id_prefix"], params | {"prefix": id, "beyond": id + MAX_CHAR})
    if not found:
        raise NotFound(f"You have no task {id!r}.")
    if len(found) > 1 and found[0].id != id:
        raise AmbiguousId("Several task ids have this prefix: use a longer one.")
    return found[0]


def find_by_key(session: Session, principal: str, key: str) -> Task | None:
    """The task with a unique key."""
    params = {"principals": list(list_names(session, principal)), "unique_key": key}
    return TASKS.first(session, ("task.of_principal", "task.by_unique_key"), params)


def find_same(session: Session, task: Task) -> list[Task]:
    """Pending tasks with the same title and due time."""
    params = {"principals": list(list_names(session, task.principal)), "title": task.title, "due_at": task.due_at}
    return TASKS.select(session, ("task.of_principal", "task.same"), params)


def find_near(session: Session, principal: str, earliest: int, latest: int, limit: int) -> list[Task]:
    names = list(list_names(session, principal))
    params = {"principals": names, "earliest": earliest, "latest": latest, "limit": limit}
    return TASKS.select(session, ("task.of_principal", "task.due_between"), params)


def list_claimable(session: Session, caller: Caller, filter: TaskFilter, now: int, limit: int) -> list[Task]:
    """Tasks that can be claimed: expired leases first, then due ones, each longest overdue first."""
    parts, params = _build_clauses(session, caller, filter)
    found = TASKS.select(session, [*parts, "task.abandoned"], params | {"now": now, "limit": limit})
    if len(found) < limit:
        more = params | {"now": now, "limit": limit - len(found)}
        found += TASKS.select(session, [*parts, "task.claimable"], more)
    return found


def list_runs(session: Session, task: str, limit: int) -> list[TaskRun]:
    """Attempts of a task, newest first."""
    return TASK_RUNS.select(session, ("task_run.of_task",), {"task": task, "limit": limit})


def _build_clauses(session: Session, caller: Caller, filter: TaskFilter) -> tuple[list[SqlPart], dict[str, Any]]:
    """Build the SQL clauses of visibility and filter. A principal matches under all its aliases."""
    parts: list[SqlPart] = []
    params: dict[str, Any] = {}
    if not caller.has_right("admin"):
        parts.append("task.of_agent")
        params |= {"agent": caller.agent, "mine": list(list_names(session, caller.agent))}
    if filter.principals:
        filter = filter._replace(principals=list_all_names(session, filter.principals))
    if "*" not in caller.namespaces:
        reach = list(caller.namespaces) or [" "]
        parts += [("task.reach_more" if number else "task.reach_first", number) for number in range(len(reach))]
        parts.append("task.reach_end")
        params |= {f"reach_{number}": path for number, path in enumerate(reach)}
    for name, part in (("principals", "of_principal"), ("states", "states"), ("handlers", "handled")):
        if value := getattr(filter, name):
            parts.append(f"task.{part}")
            params[name] = list(value)
    if filter.due is not None:
        parts.append("task.due")
        params["now"] = filter.due
    return parts, params
