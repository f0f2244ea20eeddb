"""Select and score the reflections for composed skills in SQL, limited to what the caller may see."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.features.memories.read_memories import visibility_clauses
from holdfast.features.reflections import read_invalidations as invalidations
from holdfast.kernel.context import Caller
from holdfast.kernel.storage.port import Session, SqlPart
from holdfast.kernel.timestamps import DAY
from holdfast.kernel.vector import Embedding

YEAR = 365 * DAY + DAY // 4
MAX_COUNTED_USES = 50


class ReflectionScore(NamedTuple):
    """A reflection and its score by age and use, 0 to 2."""

    id: str
    score: float
    fault: str
    """Why it is not valid: expired, ended, not_yet, superseded or stale; empty if valid."""


class ReflectionScope(NamedTuple):
    """A namespace with everything below it, and a range of reflection depths."""

    namespace: str
    min_depth: int
    max_depth: int


def find_best(
    session: Session,
    caller: Caller,
    scope: ReflectionScope,
    now: int,
    *,
    limit: int,
    among: Sequence[str] | None = None,
) -> list[ReflectionScore]:
    """Return the reflections with the best scores, valid or not; optionally only among some ids."""
    parts, params = _scope_clauses(caller, scope)
    only: tuple[SqlPart, ...] = () if among is None else ("memory.some",)
    params |= {} if among is None else {"ids": list(among)}
    rows = session.select(
        ("skill_reflections", *parts, *only, "skill_reflections.best"),
        params | {"now": now, "year_ago": now - YEAR, "per_use": YEAR // MAX_COUNTED_USES, "limit": limit},
    )
    return [ReflectionScore(id, points / YEAR, fault) for id, points, fault in rows]


def count_reflections(session: Session, caller: Caller, scope: ReflectionScope) -> int:
    """Count the reflections, valid or not."""
    parts, params = _scope_clauses(caller, scope)
    return int(session.select(("skill_reflection_count", *parts), params)[0][0])


def find_nearest(
    session: Session, caller: Caller, scope: ReflectionScope, embedding: Embedding, now: int, *, limit: int
) -> list[tuple[str, float]]:
    """Return live reflections with the nearest passage by cosine similarity."""
    parts, params = _scope_clauses(caller, scope)
    rows = session.nearest(
        embedding.vector, ["skill_reflections.live", *parts], params | {"model": embedding.model, "now": now}, limit
    )
    return [(id, cosine) for id, cosine in rows]


def read_faults(session: Session, caller: Caller, ids: Sequence[str], now: int) -> dict[str, str]:
    """Return, for each of these reflections that the caller may see, why it is not valid; empty if it is."""
    parts, params = visibility_clauses(caller)
    rows = session.select(("skill_reflection_faults", *parts, "memory.some"), params | {"ids": list(ids), "now": now})
    holding = [id for id, fault in rows if not fault]
    return dict(rows) | {one.dependent: "stale" for one in invalidations.list_pending_expiries(session, holding, now)}


def _scope_clauses(caller: Caller, scope: ReflectionScope) -> tuple[list[SqlPart], dict[str, Any]]:
    parts, params = visibility_clauses(caller)
    where = {"under": scope.namespace, "floor": scope.min_depth, "ceiling": scope.max_depth}
    return [*parts, "skill_reflections.in_scope"], params | where
