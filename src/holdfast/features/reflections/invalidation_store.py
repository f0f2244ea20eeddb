"""Create, resolve and read invalidations. They are written at the end of the transaction that causes them."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.namespaces import policy_store
from holdfast.features.reflections import pending_expiry
from holdfast.features.reflections.invalidation import (
    INVALIDATION,
    PENDING_STATUSES,
    RESTORED_REASON,
    Cause,
    ChangeSet,
    Invalidation,
    SourceStatus,
    Status,
    invalidation_id,
)
from holdfast.features.reflections.pending_expiry import MAX_HOPS, VirtualInvalidation
from holdfast.kernel.context import Caller
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.storage.port import Session, SqlPart

COLUMNS = len(Invalidation.__struct_fields__)


class InvalidatedSource(NamedTuple):
    """An invalidated source. Notifies all its dependents, or only one dependent and the dependents of that."""

    source: str
    namespace: str
    replacement: str
    cause: Cause
    replacements: frozenset[str] = frozenset()
    """Its replacements; they do not become stale."""
    only_dependent: str | None = None
    hop: int = 1
    """Distance of that dependent."""


def propagate(write: Transaction, changes: ChangeSet) -> list[Invalidation]:
    """Write notices for the dependents of invalidated sources; resolve those that no longer apply. Idempotent."""
    protected = frozenset(changes.written_notices)
    notices = _write_notices(
        write, [*_invalidated_sources(write, changes), *_inherited_sources(write, changes)], protected
    )
    if changes.restored:
        _resolve_restored(write, sorted(changes.restored), protected)
    return notices


def _invalidated_sources(write: Transaction, changes: ChangeSet) -> Iterable[InvalidatedSource]:
    """List the sources invalidated by a transaction; one that is available again at its end is left out."""
    pairs = changes.superseded | changes.ended_links
    statuses = _read_statuses(write.session, {*changes.unavailable, *changes.changed, *(target for target, _ in pairs)})
    replacements_of: dict[str, set[str]] = {}
    for target, source in changes.derivations:
        replacements_of.setdefault(target, set()).add(source)
    replaced = {target for target, _ in changes.superseded}
    for target, source in sorted(changes.superseded):
        yield _build_source(
            statuses[target], source, "superseded", frozenset({source, *replacements_of.get(target, ())})
        )
    for id in sorted(changes.unavailable - replaced):
        if cause := statuses[id].unavailable_because(write.now):
            replacements = frozenset(replacements_of.get(id, ()))
            yield _build_source(statuses[id], min(replacements, default=id), cause, replacements)
    for id in sorted(changes.changed):
        yield _build_source(statuses[id], id, "changed")
    for target, source in sorted(changes.ended_links):
        yield _build_source(statuses[target], target, "invalidated", only_dependent=source)


def _build_source(
    source: SourceStatus,
    replacement: str,
    cause: Cause,
    replacements: frozenset[str] = frozenset(),
    *,
    only_dependent: str | None = None,
    hop: int = 1,
) -> InvalidatedSource:
    return InvalidatedSource(source.id, source.namespace, replacement, cause, replacements, only_dependent, hop)


def _inherited_sources(write: Transaction, changes: ChangeSet) -> Iterable[InvalidatedSource]:
    """List the reasons that new links inherit: linking to an unavailable or stale memory makes the dependent stale."""
    invalidated = changes.unavailable | changes.arrived_unavailable | {target for target, _ in changes.superseded}
    replacements = {(target, source) for target, source in changes.derivations if target in invalidated}
    reasons = _find_reasons(write, {target for target, _ in changes.new_links})
    known = _read_statuses(
        write.session, {id for id, many in reasons.items() for id in (id, *(one.source for one in many))}
    )
    for target, source in sorted(changes.new_links):
        for why in reasons.get(target, ()):
            if source not in (why.source, why.replacement) and (why.hop or (target, source) not in replacements):
                of = known.get(why.source, known[target])._replace(id=why.source)
                cause = why.cause or of.unavailable_because(write.now)
                assert cause is not None
                yield _build_source(
                    of,
                    why.replacement,
                    cause,
                    frozenset({why.replacement} - {why.source}),
                    only_dependent=source,
                    hop=why.hop + 1,
                )


class _Reason(NamedTuple):
    """Why a new dependent of a memory is stale: the memory, or one of its sources, is invalidated."""

    source: str
    replacement: str
    hop: int
    """Distance of the memory from the invalidated source."""
    cause: Cause | None
    """None if the memory itself is unavailable."""


def _find_reasons(write: Transaction, targets: Iterable[str]) -> dict[str, list[_Reason]]:
    """Find the reasons by memory; a supersession hides that the memory is also unavailable."""
    found: dict[str, list[_Reason]] = {}
    wanted = sorted(targets)
    for target, *row in write.session.rows("invalidation_inherited", ids=wanted, now=write.now) if wanted else ():
        found.setdefault(target, []).append(_Reason(*row))
    for many in found.values():
        if any(why.cause == "superseded" and why.hop == 0 for why in many):
            many[:] = [why for why in many if why.cause is not None]
    return found


def _read_statuses(session: Session, ids: Iterable[str]) -> dict[str, SourceStatus]:
    wanted = sorted(ids)
    rows = session.rows("invalidation_source_status", ids=wanted) if wanted else []
    return {row[0]: SourceStatus(*row) for row in rows}


def _write_notices(
    write: Transaction, sources: Sequence[InvalidatedSource], written: frozenset[str]
) -> list[Invalidation]:
    wanted = {one.id: one for one in reversed(_build_notices(write, sources)) if one.id not in written}
    if not wanted:
        return []
    known = {row[0]: INVALIDATION.load(row) for row in write.session.rows("invalidation_some", ids=list(wanted))}
    order = sorted(wanted.values(), key=lambda one: (one.hop, one.dependent, one.id))
    fresh = [one for one in order if one.id not in known]
    write.add_all(INVALIDATION, fresh, "flag")
    return fresh + [again for one in order if one.id in known and (again := _reopen(write, known[one.id], one))]


def _reopen(write: Transaction, known: Invalidation, wanted: Invalidation) -> Invalidation | None:
    """Reopen a closed notice. A pending one stays, except that the cause becomes `changed`, which is permanent."""
    if known.state != "live" or known.status not in PENDING_STATUSES:
        opened = replace(
            known, hop=wanted.hop, cause=wanted.cause, status="open", reason=None, resolver=None, state="live"
        )
        return write.change(INVALIDATION, known, opened, "flag")
    if wanted.cause == "changed" != known.cause:
        write.change(INVALIDATION, known, replace(known, cause="changed"), "flag")
    return None


def _build_notices(write: Transaction, sources: Sequence[InvalidatedSource]) -> list[Invalidation]:
    """Build the notices that must exist, nearest first."""
    hops: dict[str, int] = {}
    for invalidated in sources:
        namespace = invalidated.namespace
        if namespace not in hops:
            hops[namespace] = policy_store.resolve_rules(write.session, namespace).invalidation_hops
    found = []
    for replacements in dict.fromkeys(invalidated.replacements for invalidated in sources):
        together = [invalidated for invalidated in sources if invalidated.replacements == replacements]
        roots = [invalidated.only_dependent or invalidated.source for invalidated in together]
        dependents = find_dependents(write.session, roots, write.now, without=replacements, hops=max(hops.values()))
        for invalidated in together:
            found += [
                _build_notice(write, invalidated, dependent, hop)
                for dependent, hop in _list_dependents(invalidated, dependents)
                if hop <= hops[invalidated.namespace]
            ]
    return sorted(found, key=lambda one: one.hop)


def _list_dependents(invalidated: InvalidatedSource, reached: dict[str, dict[str, int]]) -> list[tuple[str, int]]:
    """List the dependents to notify with their distances."""
    if invalidated.only_dependent is None:
        return list(reached.get(invalidated.source, {}).items())
    beyond = [
        (id, hop + invalidated.hop)
        for id, hop in reached.get(invalidated.only_dependent, {}).items()
        if id != invalidated.source
    ]
    return [(invalidated.only_dependent, invalidated.hop), *beyond]


def _build_notice(write: Transaction, invalidated: InvalidatedSource, dependent: str, hop: int) -> Invalidation:
    return Invalidation(
        id=invalidation_id(invalidated.source, invalidated.replacement, dependent),
        invalidated=invalidated.source,
        invalidating=invalidated.replacement,
        dependent=dependent,
        hop=hop,
        cause=invalidated.cause,
        status="open",
        reason=None,
        resolver=None,
        created_at=write.now,
        updated_at=write.now,
        origin=write.origin,
        version=1,
    )


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


def _resolve_restored(write: Transaction, back: list[str], written: frozenset[str]) -> None:
    """Resolve pending notices about restored memories, unless another reason remains."""
    found = [INVALIDATION.load(row) for row in write.session.rows("invalidation_pending", ids=back)]
    pending = [one for one in found if one.id not in written]
    if not pending:
        return
    checker = _StillInvalid(write.session, sorted({one.invalidated for one in pending}), write.now)
    for one in pending:
        if not checker.is_invalid(one):
            resolved = replace(one, status="resolved", reason=RESTORED_REASON, resolver=write.actor)
            write.change(INVALIDATION, one, resolved, "unflag")


class _StillInvalid:
    """Decides whether a notice still applies."""

    def __init__(self, session: Session, ids: list[str], now: int) -> None:
        self._now = now
        self._statuses = _read_statuses(session, ids)
        self._ended_links = {(row[0], row[1]) for row in session.rows("invalidation_ended_links", ids=ids, now=now)}
        self._superseded = {(row[0], row[1]) for row in session.rows("invalidation_supersessions", ids=ids, now=now)}
        self._reached = find_dependents(session, [*ids, *(source for _, source in self._ended_links)], now)

    def is_invalid(self, one: Invalidation) -> bool:
        source = one.invalidated
        depends = one.dependent in self._reached.get(source, {})
        unavailable = (
            self._statuses[source].unavailable_because(self._now) is not None
            or (source, one.invalidating) in self._superseded
        )
        return one.cause == "changed" or (depends and unavailable) or self._lost_link(one)

    def _lost_link(self, one: Invalidation) -> bool:
        """Whether the dependent, or one of its sources, lost its link to the invalidated source."""
        left = {source for target, source in self._ended_links if target == one.invalidated}
        return any(one.dependent == id or one.dependent in self._reached.get(id, {}) for id in left)


def collect_ended(write: Transaction) -> None:
    """Record memories and links whose validity started or ended since their dependents were last notified."""
    results = [write.session.rows(f"invalidation_{name}", now=write.now) for name in ("ended", "begun", "left")]
    expired, started, unlinked = results
    write.expire(row[0] for row in expired)
    changes = write.local(ChangeSet)
    changes.superseded.update((row[0], row[1]) for row in started)
    changes.ended_links.update((row[0], row[1]) for row in unlinked)


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
