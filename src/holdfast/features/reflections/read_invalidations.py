"""Read invalidations, and those due to expiry that are not written yet.

Reads do not write. Until garbage collection stores the invalidations of expired sources, they are computed exactly as
they will be written.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import Filter, find_visible
from holdfast.features.namespaces.resolve_rules import resolve_rules
from holdfast.features.reflections.invalidation import (
    INVALIDATION,
    Cause,
    Invalidation,
    SourceStatus,
    Status,
    invalidation_id,
)
from holdfast.kernel.context import Caller
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.storage.port import Session, SqlPart

COLUMNS = len(Invalidation.__struct_fields__)
MAX_HOPS = 64


class VirtualInvalidation(NamedTuple):
    """A dependent of an expired source, without a stored invalidation yet."""

    dependent: str
    source: str
    hop: int
    cause: Cause
    since: int

    def to_invalidation(self, origin: str) -> Invalidation:
        """Build the invalidation that will be written."""
        return Invalidation(
            id=invalidation_id(self.source, self.source, self.dependent),
            invalidated=self.source,
            invalidating=self.source,
            dependent=self.dependent,
            hop=self.hop,
            cause=self.cause,
            status="open",
            reason=None,
            resolver=None,
            created_at=self.since,
            updated_at=self.since,
            origin=origin,
            version=1,
        )


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
    return _add_pending(session, caller, reasons, list_pending_expiries(session, ids, now))


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


def list_pending_expiries(session: Session, ids: Sequence[str], now: int) -> list[VirtualInvalidation]:
    """List the pending expiries of the sources of some memories."""
    rows = session.rows("expired_sources", ids=list(ids), hops=MAX_HOPS, now=now) if ids else []
    return _build_pending(session, [(root, fell, hop) for root, fell, hop in rows], now)


def list_all_pending_expiries(session: Session, now: int) -> list[VirtualInvalidation]:
    """List all pending expiries."""
    roots = sorted({id for (id,) in session.rows("expired_roots", now=now)})
    rows = session.rows("invalidation_dependents", roots=roots, without=[], hops=MAX_HOPS, now=now) if roots else []
    return _build_pending(session, [(dependent, root, hop) for root, dependent, hop in rows], now)


def expire_sources(write: Transaction, sources: Iterable[str]) -> None:
    """Collect some expired sources now, so that their dependents are notified at the end of the transaction."""
    ids = sorted(sources)
    write.session.do("expired_collect", ids=ids, now=write.now)
    write.expire(ids)


def _build_pending(session: Session, found: Sequence[tuple[str, str, int]], now: int) -> list[VirtualInvalidation]:
    """Drop pairs that are already reported or beyond the policy's hop limit."""
    if not found:
        return []
    statuses = read_statuses(session, {fell for _, fell, _ in found})
    written_at = _read_updated_at(session, (invalidation_id(fell, fell, dependent) for dependent, fell, _ in found))
    hops = {fell: resolve_rules(session, one.namespace).invalidation_hops for fell, one in statuses.items()}
    return [
        VirtualInvalidation(dependent, fell, hop, cause, since)
        for dependent, fell, hop in found
        if (cause := statuses[fell].unavailable_because(now))
        and hop <= hops[fell]
        and written_at.get(invalidation_id(fell, fell, dependent), -1) < (since := statuses[fell].expired_at(now))
    ]


def _read_updated_at(session: Session, ids: Iterable[str]) -> dict[str, int]:
    """Read when each invalidation was last written."""
    rows = session.rows("invalidation_some", ids=list(ids))
    return {one.id: one.updated_at for one in map(INVALIDATION.load, rows)}
