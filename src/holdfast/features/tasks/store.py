"""Storage of tasks and their runs, limited to what the caller can see."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict

from holdfast.features.people.resolve_names import list_all_names, list_names
from holdfast.features.tasks.model import State, Task, TaskRun
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import AmbiguousId, Invalid, NotFound
from holdfast.kernel.storage.port import Row, Session, SqlPart

MIN_PREFIX_CHARS = 6
MAX_CHAR = "\U0010ffff"


class TaskFilter(NamedTuple):
    """Filter over the tasks visible to the caller."""

    principals: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    due: int | None = None
    """Only tasks that can be claimed at this time."""
    handlers: tuple[str, ...] = ()


ALL = TaskFilter()


def task_from_row(row: Row) -> Task:
    """Build a task from the columns of `task.columns`."""
    values = list(row)
    values[10] = msgspec.json.decode(row[10])
    values[24] = bool(row[24])
    return Task(*values)


def run_from_row(row: Row) -> TaskRun:
    values = list(row)
    values[9] = bool(row[9])
    return TaskRun(*values)


def put_task(session: Session, task: Task) -> None:
    """Insert or update a task. Owner, creator, handler and target never change."""
    row = asdict(task)
    session.do(
        "task_put",
        **{**row, "payload": msgspec.json.encode(task.payload).decode(), "cancel_asked": int(task.cancel_asked)},
    )


def add_run(session: Session, run: TaskRun) -> None:
    session.do("task_run_add", **{**asdict(run), "final": int(run.final)})


def select_tasks(session: Session, caller: Caller, filter: TaskFilter, limit: int, skip: int = 0) -> list[Task]:
    """Visible tasks by due time."""
    parts, params = _build_clauses(session, caller, filter)
    rows = session.select(("task_select", *parts, "task.page"), params | {"limit": limit, "skip": skip})
    return [task_from_row(row) for row in rows]


def count_tasks(session: Session, caller: Caller, filter: TaskFilter) -> int:
    parts, params = _build_clauses(session, caller, filter)
    return int(session.select(("task_count", *parts), params)[0][0])


def get_by_prefix(session: Session, caller: Caller, id: str, principals: Sequence[str] = ()) -> Task:
    """Load the visible task with this id or unique prefix."""
    if len(id) < MIN_PREFIX_CHARS:
        raise Invalid(f"id: must have at least {MIN_PREFIX_CHARS} characters", fields=["id"])
    parts, params = _build_clauses(session, caller, TaskFilter(principals=tuple(principals)))
    query_params = params | {"prefix": id, "beyond": id + MAX_CHAR}
    rows = session.select(("task_select", *parts, "task.id_prefix"), query_params)
    if not rows:
        raise NotFound(f"You have no task {id!r}.")
    if len(rows) > 1 and rows[0][0] != id:
        raise AmbiguousId("Several task ids have this prefix: use a longer one.")
    return task_from_row(rows[0])


def find_by_key(session: Session, principal: str, key: str) -> Task | None:
    """The task with a unique key."""
    params = {"principals": list(list_names(session, principal)), "unique_key": key}
    rows = session.select(("task_select", "task.of_principal", "task.by_unique_key"), params)
    return task_from_row(rows[0]) if rows else None


def find_same(session: Session, task: Task) -> list[Task]:
    """Pending tasks with the same title and due time."""
    params = {"principals": list(list_names(session, task.principal)), "title": task.title, "due_at": task.due_at}
    return [task_from_row(row) for row in session.select(("task_select", "task.of_principal", "task.same"), params)]


def find_near(session: Session, principal: str, earliest: int, latest: int, limit: int) -> list[Task]:
    names = list(list_names(session, principal))
    params = {"principals": names, "earliest": earliest, "latest": latest, "limit": limit}
    return [
        task_from_row(row) for row in session.select(("task_select", "task.of_principal", "task.due_between"), params)
    ]


def list_claimable(session: Session, caller: Caller, filter: TaskFilter, now: int, limit: int) -> list[Task]:
    """Tasks that can be claimed: expired leases first, then due ones, each longest overdue first."""
    parts, params = _build_clauses(session, caller, filter)
    query_params = params | {"now": now, "limit": limit}
    rows = session.select(("task_select", *parts, "task.abandoned"), query_params)
    if len(rows) < limit:
        query_params["limit"] = limit - len(rows)
        rows += session.select(("task_select", *parts, "task.claimable"), query_params)
    return [task_from_row(row) for row in rows]


def list_runs(session: Session, task: str, limit: int) -> list[TaskRun]:
    """Attempts of a task, newest first."""
    return [run_from_row(row) for row in session.rows("task_run_page", task=task, limit=limit)]


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
