"""The reflections that a skill brings along: chosen, weighed and limited in SQL, as far as the caller may see them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..domain.caller import Caller
from ..domain.moment import DAY
from .memories import visible
from .port import Part, Session

YEAR = 365 * DAY + DAY // 4
MANY_USES = 50
MOST_NAMESPACES = 1000


class Worth(NamedTuple):
    """A reflection, and what it is worth by its age and its use: 0 to 2."""

    id: str
    worth: float


class Within(NamedTuple):
    """A namespace and what lies below it, between two depths."""

    namespace: str
    floor: int
    ceiling: int


def best(
    session: Session, caller: Caller, within: Within, now: int, *, limit: int, among: Sequence[str] | None = None
) -> tuple[list[Worth], int]:
    """The best that still hold, and how many hold; of some ids, if they are given."""
    parts, params = _within(caller, within, now)
    only: tuple[Part, ...] = () if among is None else ("memory.some",)
    params |= {} if among is None else {"ids": list(among)}
    rows = session.assembled(
        ("skill_reflections", *parts, *only, "memory.live", "skill_reflections.fit", "skill_reflections.best"),
        params | {"year_ago": now - YEAR, "per_use": YEAR // MANY_USES, "limit": limit},
    )
    return [Worth(id, points / YEAR) for id, points, _ in rows], int(rows[0][2]) if rows else 0


def left_out(session: Session, caller: Caller, within: Within, now: int, *, limit: int) -> list[tuple[str, str]]:
    """Those that hold no longer, and why: expired, superseded or stale."""
    parts, params = _within(caller, within, now)
    rows = session.assembled(("skill_left_out", *parts, "skill_left_out.newest"), params | {"limit": limit})
    return [(row[0], row[1]) for row in rows]


def namespaces(session: Session, caller: Caller, within: Within, now: int) -> list[str]:
    """The namespaces in which there are any."""
    parts, params = _within(caller, within, now)
    return [row[0] for row in session.assembled(("skill_namespaces", *parts), params)][:MOST_NAMESPACES]


def _within(caller: Caller, within: Within, now: int) -> tuple[list[Part], dict[str, Any]]:
    parts, params = visible(caller)
    where = {"under": within.namespace, "floor": within.floor, "ceiling": within.ceiling, "now": now}
    return [*parts, "memory.under", "skill_reflections.deep"], params | where
