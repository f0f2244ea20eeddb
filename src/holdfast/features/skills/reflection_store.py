"""Select and score the reflections for composed skills in SQL, limited to what the caller may see."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.features.memories.store import visible
from holdfast.features.reflections import pending_expiry as untold
from holdfast.kernel.caller import Caller
from holdfast.kernel.storage.port import Part, Session
from holdfast.kernel.timestamps import DAY
from holdfast.kernel.vector import Embedding

YEAR = 365 * DAY + DAY // 4
MANY_USES = 50


class Worth(NamedTuple):
    """A reflection and its score by age and use, 0 to 2."""

    id: str
    worth: float
    fault: str
    """Why it is not valid: expired, ended, not_yet, superseded or stale; empty if valid."""


class Within(NamedTuple):
    """A namespace with everything below it, and a range of reflection depths."""

    namespace: str
    floor: int
    ceiling: int


def best(
    session: Session, caller: Caller, within: Within, now: int, *, limit: int, among: Sequence[str] | None = None
) -> list[Worth]:
    """Return the reflections with the best scores, valid or not; optionally only among some ids."""
    parts, params = _within(caller, within)
    only: tuple[Part, ...] = () if among is None else ("memory.some",)
    params |= {} if among is None else {"ids": list(among)}
    rows = session.assembled(
        ("skill_reflections", *parts, *only, "skill_reflections.best"),
        params | {"now": now, "year_ago": now - YEAR, "per_use": YEAR // MANY_USES, "limit": limit},
    )
    return [Worth(id, points / YEAR, fault) for id, points, fault in rows]


def count(session: Session, caller: Caller, within: Within) -> int:
    """Count the reflections, valid or not."""
    parts, params = _within(caller, within)
    return int(session.assembled(("skill_reflection_count", *parts), params)[0][0])


def nearest(
    session: Session, caller: Caller, within: Within, asked: Embedding, now: int, *, limit: int
) -> list[tuple[str, float]]:
    """Return live reflections with the nearest passage by cosine similarity."""
    parts, params = _within(caller, within)
    rows = session.nearest(
        asked.vector, ["skill_reflections.live", *parts], params | {"model": asked.model, "now": now}, limit
    )
    return [(id, cosine) for id, cosine in rows]


def origins(session: Session, caller: Caller, ids: Sequence[str], now: int) -> dict[str, str]:
    """Return, for each of these reflections that the caller may see, why it is not valid; empty if it is."""
    parts, params = visible(caller)
    rows = session.assembled(("skill_origins", *parts, "memory.some"), params | {"ids": list(ids), "now": now})
    holding = [id for id, fault in rows if not fault]
    return dict(rows) | {one.dependent: "stale" for one in untold.of(session, holding, now)}


def _within(caller: Caller, within: Within) -> tuple[list[Part], dict[str, Any]]:
    parts, params = visible(caller)
    where = {"under": within.namespace, "floor": within.floor, "ceiling": within.ceiling}
    return [*parts, "skill_reflections.within"], params | where
