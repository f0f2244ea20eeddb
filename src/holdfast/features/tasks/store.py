"""Tasks and their runs, and who may see which."""

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
    """Which tasks are asked for, among those that the caller may see."""

    principals: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    due: int | None = None
    """Only those that could be claimed at a moment."""
    handlers: tuple[str, ...] = ()


ALL = Which()


def task_of(row: Row) -> Task:
    """A task from the columns of `task.columns`."""
    values = list(row)
    values[10] = msgspec.json.decode(row[10])
    values[24] = bool(row[24])
    return Task(*values)


def run_of(row: Row) -> Run:
    values = list(row)
    values[9] = bool(row[9])
    return Run(*values)


def put(session: Session, task: Task) -> None:
    """Write a task as it is now. Whose it is, who made it and what it runs never change."""
    row = asdict(task)
    session.do(
        "task_put",
        **{**row, "payload": msgspec.json.encode(task.payload).decode(), "cancel_asked": int(task.cancel_asked)},
    )


def add_run(session: Session, run: Run) -> None:
    session.do("task_run_add", **{**asdict(run), "final": int(run.final)})


def select(session: Session, caller: Caller, which: Which, limit: int, skip: int = 0) -> list[Task]:
    """Tasks that the caller may see, the one that is due first first."""
    parts, params = _narrowed(session, caller, which)
    rows = session.assembled(("task_select", *parts, "task.page"), params | {"limit": limit, "skip": skip})
    return [task_of(row) for row in rows]


def count(session: Session, caller: Caller, which: Which) -> int:
    parts, params = _narrowed(session, caller, which)
    return int(session.assembled(("task_count", *parts), params)[0][0])


def named(session: Session, caller: Caller, id: str, principals: Sequence[str] = ()) -> Task:
    """The one task that an id or the beginning of one means, among those that the caller may see."""
    if len(id) < SHORTEST_PREFIX:
        raise Invalid(f"id: give at least {SHORTEST_PREFIX} characters of it", fields=["id"])
    parts, params = _narrowed(session, caller, Which(principals=tuple(principals)))
    asked = params | {"prefix": id, "beyond": id + LONGEST_TEXT}
    rows = session.assembled(("task_select", *parts, "task.begins"), asked)
    if not rows:
        raise NotFound(f"There is no task {id!r} of yours.")
    if len(rows) > 1 and rows[0][0] != id:
        raise AmbiguousId("Several tasks have an id that begins so: give more of it.")
    return task_of(rows[0])


def keyed(session: Session, principal: str, key: str) -> Task | None:
    """The task that was made under a key."""
    params = {"principals": list(known_as(session, principal)), "unique_key": key}
    rows = session.assembled(("task_select", "task.of_principal", "task.keyed"), params)
    return task_of(rows[0]) if rows else None


def same(session: Session, task: Task) -> list[Task]:
    """What waits for the same time under the same words."""
    params = {"principals": list(known_as(session, task.principal)), "title": task.title, "due_at": task.due_at}
    return [task_of(row) for row in session.assembled(("task_select", "task.of_principal", "task.same"), params)]


def near(session: Session, principal: str, earliest: int, latest: int, limit: int) -> list[Task]:
    names = list(known_as(session, principal))
    params = {"principals": names, "earliest": earliest, "latest": latest, "limit": limit}
    return [task_of(row) for row in session.assembled(("task_select", "task.of_principal", "task.near"), params)]


def claimable(session: Session, caller: Caller, which: Which, now: int, limit: int) -> list[Task]:
    """What could be claimed: what was left by who had it, then what waits, each the longest waiting first."""
    parts, params = _narrowed(session, caller, which)
    asked = params | {"now": now, "limit": limit}
    left = session.assembled(("task_select", *parts, "task.abandoned"), asked)
    if len(left) < limit:
        asked["limit"] = limit - len(left)
        left += session.assembled(("task_select", *parts, "task.claimable"), asked)
    return [task_of(row) for row in left]


def runs(session: Session, task: str, limit: int) -> list[Run]:
    """What became of a task, the last try first."""
    return [run_of(row) for row in session.rows("task_run_page", task=task, limit=limit)]


def _narrowed(session: Session, caller: Caller, which: Which) -> tuple[list[Part], dict[str, Any]]:
    """The clauses of who may see what, and of what is asked for; a principal is meant by every one of its names."""
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
