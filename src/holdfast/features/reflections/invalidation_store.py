"""Create, resolve and read invalidations. They are written at the end of the transaction that causes them."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.reflections import pending_expiry
from holdfast.features.reflections.invalidation import Cause, Invalidation, SourceStatus, Status
from holdfast.features.reflections.pending_expiry import MAX_HOPS, VirtualInvalidation
from holdfast.kernel.context import Caller
from holdfast.kernel.storage.port import Session, SqlPart

COLUMNS = len(Invalidation.__struct_fields__)


def read_statuses(session: Session, ids: Iterable[str]) -> dict[str, SourceStatus]:
    wanted = sorted(ids)
    rows = session.rows("invalidation_source_status", ids=wanted) if wanted else []
    return {row[0]: SourceStatus(*row) for row in rows}


def find_dependents(
    session: Session, roots: Iterable[str], now: int, *, without: Iterable[str] = (), hops: int = MAX_HOPS
) -> dict[str, dict[str, int]]:
    """Find the dependents of some memories with their distances, regardless of visibility."""
    found: dict[str, dict[str, int]] = {}
    rows = session.rows(
        "invalidation_dependents", roots=sorted(set(roots)), without=sorted(without), hops=hops, now=now
    )
    for root, id, hop in rows:
        found.setdefault(root, {})[id] = hop
    return found


class InvalidationFilter(Struct, frozen=True, kw_only=True):
    """A filter on invalidations. All conditions must hold."""

    statuses: tuple[Status, ...] = ()
    namespace: str | None = None
    """Namespace of the dependent."""
    dependent: str | None = None
    invalidated: str | None = None


class Notice(NamedTuple):
    """An invalidation and its dependent."""

    invalidation: Invalidation
    namespace: str
    title: str
    agent: str
    scope: str


def select(
    session: Session, caller: Caller, which: InvalidationFilter, now: int, *, limit: int, skip: int
) -> list[Notice]:
    """Read invalidations whose dependents the caller may see, newest first."""
    parts, params = _filter_clauses(caller, which, now)
    rows = session.select(
        ("invalidation_select", *parts, "invalidation.newest_first"), params | {"limit": limit, "skip": skip}
    )
    return [Notice(Invalidation(*row[:COLUMNS]), *row[COLUMNS:]) for row in rows]


def count(session: Session, caller: Caller, which: InvalidationFilter, now: int) -> int:
    parts, params = _filter_clauses(caller, which, now)
    return int(session.select(("invalidation_count", *parts), params)[0][0])


_CLAUSES = (
    ("statuses", "invalidation.with_status"),
    ("dependent", "invalidation.of_dependent"),
    ("invalidated", "invalidation.of_invalidated"),
)


def _filter_clauses(caller: Caller, which: InvalidationFilter, now: int) -> tuple[list[SqlPart], dict[str, Any]]:
    parts, params = memories.filter_clauses(caller, Filter(namespace=which.namespace), now, "kept")
    for field, part in _CLAUSES:
        if value := getattr(which, field):
            parts.append(part)
            params[field] = value
    return parts, params


def get_notice(session: Session, caller: Caller, id: str) -> Notice | None:
    """Read one invalidation if the caller may see its dependent."""
    parts, params = memories.visibility_clauses(caller)
    rows = session.select(("invalidation_select", *parts, "invalidation.one"), params | {"invalidation": id})
    return Notice(Invalidation(*rows[0][:COLUMNS]), *rows[0][COLUMNS:]) if rows else None


def find_visible(session: Session, caller: Caller, ids: Iterable[str], *, not_deleted: bool = False) -> set[str]:
    """Ids of the visible memories among some; deleted ones count unless `kept` is set."""
    wanted = list(ids)
    parts, params = memories.visibility_clauses(caller)
    parts += ["memory.kept"] if not_deleted else []
    return {row[0] for row in session.select(("memory_ids", *parts, "memory.some"), params | {"ids": wanted})}


class StaleReason(NamedTuple):
    """Why a memory is stale: the nearest reason and the number of reasons."""

    cause: Cause
    status: Status
    hop: int
    since: int
    many: int
    invalidated: str | None
    """None if the caller may not see it."""
    invalidating: str | None


def find_stale(session: Session, caller: Caller, ids: Sequence[str], now: int) -> dict[str, StaleReason]:
    """Find which memories are stale and why, including expiries not written yet."""
    if not ids:
        return {}
    pending = [id for (id,) in session.rows("stale_some", ids=list(ids))]
    reasons = _read_reasons(session, caller, pending) if pending else {}
    return _add_pending(session, caller, reasons, pending_expiry.list_for(session, ids, now))


def _read_reasons(session: Session, caller: Caller, ids: Sequence[str]) -> dict[str, StaleReason]:
    """Read the reasons of memories that have pending notices."""
    clauses, params = memories.visibility_clauses(caller)
    parts = ("stale_select", *clauses, "stale_select.replacement", *clauses, "stale_select.end")
    return {row[0]: StaleReason(*row[1:]) for row in session.select(parts, params | {"ids": list(ids)})}


def _add_pending(
    session: Session, caller: Caller, told: dict[str, StaleReason], more: Sequence[VirtualInvalidation]
) -> dict[str, StaleReason]:
    """Merge in expiries not written yet: keep the nearest, newest reason and count all."""
    visible = find_visible(session, caller, {one.source for one in more}) if more else set()
    for one in more:
        source = one.source if one.source in visible else None
        fresh, known = StaleReason(one.cause, "open", one.hop, one.since, 1, source, source), told.get(one.dependent)
        first = fresh if known is None or (fresh.hop, -fresh.since) < (known.hop, -known.since) else known
        told[one.dependent] = first._replace(many=1 if known is None else known.many + 1)
    return told
