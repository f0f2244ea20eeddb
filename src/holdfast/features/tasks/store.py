"""Storage of tasks and their runs, limited to what the caller can see."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict

from holdfast.features.people.store import all_known_as, known_as
from holdfast.features.tasks.model import Run, State, Task
from holdfast.kernel.caller import Caller
from holdfast.kernel.errors import AmbiguousId, Invalid, NotFound
from holdfast.kernel.storage.port import Part, Row, Session

SHORTEST_PREFIX = 6
LONGEST_TEXT = "\U0010ffff"


class Which(NamedTuple):
    """Filter over the tasks visible to the caller."""

    principals: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    due: int | None = None
    """Only tasks that can be claimed at this time."""
    handlers: tuple[str, ...] = ()


ALL = Which()


def task_of(row: Row) -> Task:
    """Build a task from the columns of `task.columns`."""
    values = list(row)
    values[10] = msgspec.json.decode(row[10])
    values[24] = bool(row[24])
    return Task(*values)


def run_of(row: Row) -> Run:
    values = list(row)
    values[9] = bool(row[9])
    return Run(*values)


def put(session: Session, task: Task) -> None:
    """Insert or update a task. Owner, creator, handler and target never change."""
    row = asdict(task)
    session.do(
        "task_put",
        **{**row, "payload": msgspec.json.encode(task.payload).decode(), "cancel_asked": int(task.cancel_asked)},
    )


def add_run(session: Session, run: Run) -> None:
    session.do("task_run_add", **{**asdict(run), "final": int(run.final)})


def select(session: Session, caller: Caller, which: Which, limit: int, skip: int = 0) -> list[Task]:
    """Visible tasks by due time."""
    parts, params = _narrowed(session, caller, which)
    rows = session.assembled(("task_select", *parts, "task.page"), params | {"limit": limit, "skip": skip})
    return [task_of(row) for row in rows]


def count(session: Session, caller: Caller, which: Which) -> int:
    parts, params = _narrowed(session, caller, which)
    return int(session.assembled(("task_count", *parts), params)[0][0])


def named(session: Session, caller: Caller, id: str, principals: Sequence[str] = ()) -> Task:
    """Load the visible task with this id or unique prefix."""
    if len(id) < SHORTEST_PREFIX:
        raise Invalid(f"id: must have at least {SHORTEST_PREFIX} characters", fields=["id"])
    parts, params = _narrowed(session, caller, Which(principals=tuple(principals)))
    query_params = params | {"prefix": id, "beyond": id + LONGEST_TEXT}
    rows = session.assembled(("task_select", *parts, "task.begins"), query_params)
    if not rows:
        raise NotFound(f"You have no task {id!r}.")
    if len(rows) > 1 and rows[0][0] != id:
        raise AmbiguousId("Several task ids have this prefix: use a longer one.")
    return task_of(rows[0])


def keyed(session: Session, principal: str, key: str) -> Task | None:
    """The task with a unique key."""
    params = {"principals": list(known_as(session, principal)), "unique_key": key}
    rows = session.assembled(("task_select", "task.of_principal", "task.keyed"), params)
    return task_of(rows[0]) if rows else None


def same(session: Session, task: Task) -> list[Task]:
    """Pending tasks with the same title and due time."""
    params = {"principals": list(known_as(session, task.principal)), "title": task.title, "due_at": task.due_at}
    return [task_of(row) for row in session.assembled(("task_select", "task.of_principal", "task.same"), params)]


def near(session: Session, principal: str, earliest: int, latest: int, limit: int) -> list[Task]:
    names = list(known_as(session, principal))
    params = {"principals": names, "earliest": earliest, "latest": latest, "limit": limit}
    return [task_of(row) for row in session.assembled(("task_select", "task.of_principal", "task.near"), params)]


def claimable(session: Session, caller: Caller, which: Which, now: int, limit: int) -> list[Task]:
    """Tasks that can be claimed: expired leases first, then due ones, each longest overdue first."""
    parts, params = _narrowed(session, caller, which)
    query_params = params | {"now": now, "limit": limit}
    rows = session.assembled(("task_select", *parts, "task.abandoned"), query_params)
    if len(rows) < limit:
        query_params["limit"] = limit - len(rows)
        rows += session.assembled(("task_select", *parts, "task.claimable"), query_params)
    return [task_of(row) for row in rows]


def runs(session: Session, task: str, limit: int) -> list[Run]:
    """Attempts of a task, newest first."""
    return [run_of(row) for row in session.rows("task_run_page", task=task, limit=limit)]


def _narrowed(session: Session, caller: Caller, which: Which) -> tuple[list[Part], dict[str, Any]]:
    """Build the SQL clauses of visibility and filter. A principal matches under all its aliases."""
    parts: list[Part] = []
    params: dict[str, Any] = {}
    if not caller.may("admin"):
        parts.append("task.of_agent")
        params |= {"agent": caller.agent, "mine": list(known_as(session, caller.agent))}
    if which.principals:
        which = which._replace(principals=all_known_as(session, which.principals))
    if "*" not in caller.namespaces:
        reach = list(caller.namespaces) or [" "]
        parts += [("task.reach_more" if number else "task.reach_first", number) for number in range(len(reach))]
        parts.append("task.reach_end")
        params |= {f"reach_{number}": path for number, path in enumerate(reach)}
    for name, part in (("principals", "of_principal"), ("states", "states"), ("handlers", "handled")):
        if value := getattr(which, name):
            parts.append(f"task.{part}")
            params[name] = list(value)
    if which.due is not None:
        parts.append("task.due")
        params["now"] = which.due
    return parts, params
