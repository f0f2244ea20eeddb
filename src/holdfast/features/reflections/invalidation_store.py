"""Create, resolve and read invalidations. They are written at the end of the transaction that causes them."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.namespaces import policy_store as policies
from holdfast.features.reflections import pending_expiry as untold
from holdfast.features.reflections.invalidation import (
    INVALIDATION,
    RESTORED,
    UNSETTLED,
    Cause,
    ChangeSet,
    Invalidation,
    Standing,
    Status,
    id_of,
)
from holdfast.features.reflections.pending_expiry import MOST_HOPS, Untold
from holdfast.kernel.caller import Caller
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.storage.port import Part, Session

COLUMNS = len(Invalidation.__struct_fields__)


class Fall(NamedTuple):
    """An invalidated source. Notifies all its dependents, or only one dependent and the dependents of that."""

    of: str
    namespace: str
    by: str
    cause: Cause
    heirs: frozenset[str] = frozenset()
    """Its replacements; they do not become stale."""
    only: str | None = None
    hop: int = 1
    """Distance of that dependent."""


def settle(write: Transaction, happened: ChangeSet) -> list[Invalidation]:
    """Write notices for the dependents of invalidated sources; resolve those that no longer apply. Idempotent."""
    settled = frozenset(happened.settled)
    written = _tell(write, [*_falls(write, happened), *_inherited(write, happened)], settled)
    if happened.back:
        _take_back(write, sorted(happened.back), settled)
    return written


def _falls(write: Transaction, happened: ChangeSet) -> Iterable[Fall]:
    """List the sources invalidated by a transaction; one that is available again at its end is left out."""
    pairs = happened.superseded | happened.cut
    statuses = _standing(write.session, {*happened.gone, *happened.changed, *(target for target, _ in pairs)})
    replacements_of: dict[str, set[str]] = {}
    for target, source in happened.made:
        replacements_of.setdefault(target, set()).add(source)
    replaced = {target for target, _ in happened.superseded}
    for target, source in sorted(happened.superseded):
        yield _fall(statuses[target], source, "superseded", frozenset({source, *replacements_of.get(target, ())}))
    for id in sorted(happened.gone - replaced):
        if cause := statuses[id].away(write.now):
            replacements = frozenset(replacements_of.get(id, ()))
            yield _fall(statuses[id], min(replacements, default=id), cause, replacements)
    for id in sorted(happened.changed):
        yield _fall(statuses[id], id, "changed")
    for target, source in sorted(happened.cut):
        yield _fall(statuses[target], target, "invalidated", only=source)


def _fall(
    of: Standing, by: str, cause: Cause, heirs: frozenset[str] = frozenset(), *, only: str | None = None, hop: int = 1
) -> Fall:
    return Fall(of.id, of.namespace, by, cause, heirs, only, hop)


def _inherited(write: Transaction, happened: ChangeSet) -> Iterable[Fall]:
    """List the reasons that new links inherit: linking to an unavailable or stale memory makes the dependent stale."""
    invalidated = happened.gone | happened.arrived | {target for target, _ in happened.superseded}
    replacements = {(target, source) for target, source in happened.made if target in invalidated}
    reasons = _reasons(write, {target for target, _ in happened.grounded})
    known = _standing(write.session, {id for id, many in reasons.items() for id in (id, *(one.fell for one in many))})
    for target, source in sorted(happened.grounded):
        for why in reasons.get(target, ()):
            if source not in (why.fell, why.by) and (why.hop or (target, source) not in replacements):
                of = known.get(why.fell, known[target])._replace(id=why.fell)
                cause = why.cause or of.away(write.now)
                assert cause is not None
                yield _fall(of, why.by, cause, frozenset({why.by} - {why.fell}), only=source, hop=why.hop + 1)


class _Reason(NamedTuple):
    """Why a new dependent of a memory is stale: the memory, or one of its sources, is invalidated."""

    fell: str
    by: str
    hop: int
    """Distance of the memory from the invalidated source."""
    cause: Cause | None
    """None if the memory itself is unavailable."""


def _reasons(write: Transaction, targets: Iterable[str]) -> dict[str, list[_Reason]]:
    """Find the reasons by memory; a supersession hides that the memory is also unavailable."""
    found: dict[str, list[_Reason]] = {}
    wanted = sorted(targets)
    for target, *row in write.session.rows("invalidation_grounds", ids=wanted, now=write.now) if wanted else ():
        found.setdefault(target, []).append(_Reason(*row))
    for many in found.values():
        if any(why.cause == "superseded" and why.hop == 0 for why in many):
            many[:] = [why for why in many if why.cause is not None]
    return found


def _standing(session: Session, ids: Iterable[str]) -> dict[str, Standing]:
    wanted = sorted(ids)
    rows = session.rows("invalidation_standing", ids=wanted) if wanted else []
    return {row[0]: Standing(*row) for row in rows}


def _tell(write: Transaction, falls: Sequence[Fall], settled: frozenset[str]) -> list[Invalidation]:
    wanted = {one.id: one for one in reversed(_wanted(write, falls)) if one.id not in settled}
    if not wanted:
        return []
    known = {row[0]: INVALIDATION.load(row) for row in write.session.rows("invalidation_some", ids=list(wanted))}
    order = sorted(wanted.values(), key=lambda one: (one.hop, one.dependent, one.id))
    fresh = [one for one in order if one.id not in known]
    write.add_all(INVALIDATION, fresh, "flag")
    return fresh + [again for one in order if one.id in known and (again := _again(write, known[one.id], one))]


def _again(write: Transaction, known: Invalidation, wanted: Invalidation) -> Invalidation | None:
    """Reopen a closed notice. A pending one stays, except that the cause becomes `changed`, which is permanent."""
    if known.state != "live" or known.status not in UNSETTLED:
        opened = replace(
            known, hop=wanted.hop, cause=wanted.cause, status="open", reason=None, resolver=None, state="live"
        )
        return write.change(INVALIDATION, known, opened, "flag")
    if wanted.cause == "changed" != known.cause:
        write.change(INVALIDATION, known, replace(known, cause="changed"), "flag")
    return None


def _wanted(write: Transaction, falls: Sequence[Fall]) -> list[Invalidation]:
    """Build the notices that must exist, nearest first."""
    hops: dict[str, int] = {}
    for fall in falls:
        namespace = fall.namespace
        if namespace not in hops:
            hops[namespace] = policies.resolved(write.session, namespace).invalidation_hops
    found = []
    for replacements in dict.fromkeys(fall.heirs for fall in falls):
        together = [fall for fall in falls if fall.heirs == replacements]
        roots = [fall.only or fall.of for fall in together]
        dependents = reach(write.session, roots, write.now, without=replacements, hops=max(hops.values()))
        for fall in together:
            found += [
                _new(write, fall, dependent, hop)
                for dependent, hop in _dependents(fall, dependents)
                if hop <= hops[fall.namespace]
            ]
    return sorted(found, key=lambda one: one.hop)


def _dependents(fall: Fall, reached: dict[str, dict[str, int]]) -> list[tuple[str, int]]:
    """List the dependents to notify with their distances."""
    if fall.only is None:
        return list(reached.get(fall.of, {}).items())
    beyond = [(id, hop + fall.hop) for id, hop in reached.get(fall.only, {}).items() if id != fall.of]
    return [(fall.only, fall.hop), *beyond]


def _new(write: Transaction, fall: Fall, dependent: str, hop: int) -> Invalidation:
    return Invalidation(
        id=id_of(fall.of, fall.by, dependent),
        invalidated=fall.of,
        invalidating=fall.by,
        dependent=dependent,
        hop=hop,
        cause=fall.cause,
        status="open",
        reason=None,
        resolver=None,
        created_at=write.now,
        updated_at=write.now,
        origin=write.origin,
        version=1,
    )


def reach(
    session: Session, roots: Iterable[str], now: int, *, without: Iterable[str] = (), hops: int = MOST_HOPS
) -> dict[str, dict[str, int]]:
    """Find the dependents of some memories with their distances, regardless of visibility."""
    found: dict[str, dict[str, int]] = {}
    rows = session.rows("invalidation_reach", roots=sorted(set(roots)), without=sorted(without), hops=hops, now=now)
    for root, id, hop in rows:
        found.setdefault(root, {})[id] = hop
    return found


def _take_back(write: Transaction, back: list[str], settled: frozenset[str]) -> None:
    """Resolve pending notices about restored memories, unless another reason remains."""
    found = [INVALIDATION.load(row) for row in write.session.rows("invalidation_unsettled", ids=back)]
    pending = [one for one in found if one.id not in settled]
    if not pending:
        return
    checker = _Still(write.session, sorted({one.invalidated for one in pending}), write.now)
    for one in pending:
        if not checker.holds(one):
            resolved = replace(one, status="resolved", reason=RESTORED, resolver=write.actor)
            write.change(INVALIDATION, one, resolved, "unflag")


class _Still:
    """Decides whether a notice still applies."""

    def __init__(self, session: Session, ids: list[str], now: int) -> None:
        self._now = now
        self._standing = _standing(session, ids)
        self._cut = {(row[0], row[1]) for row in session.rows("invalidation_cut", ids=ids, now=now)}
        self._superseded = {(row[0], row[1]) for row in session.rows("invalidation_superseded", ids=ids, now=now)}
        self._reached = reach(session, [*ids, *(source for _, source in self._cut)], now)

    def holds(self, one: Invalidation) -> bool:
        source = one.invalidated
        depends = one.dependent in self._reached.get(source, {})
        unavailable = (
            self._standing[source].away(self._now) is not None or (source, one.invalidating) in self._superseded
        )
        return one.cause == "changed" or (depends and unavailable) or self._left(one)

    def _left(self, one: Invalidation) -> bool:
        """Whether the dependent, or one of its sources, lost its link to the invalidated source."""
        left = {source for target, source in self._cut if target == one.invalidated}
        return any(one.dependent == id or one.dependent in self._reached.get(id, {}) for id in left)


def ended(write: Transaction) -> None:
    """Record memories and links whose validity started or ended since their dependents were last notified."""
    results = [write.session.rows(f"invalidation_{name}", now=write.now) for name in ("ended", "begun", "left")]
    expired, started, unlinked = results
    write.expired(row[0] for row in expired)
    changes = write.local(ChangeSet)
    changes.superseded.update((row[0], row[1]) for row in started)
    changes.cut.update((row[0], row[1]) for row in unlinked)


class Which(Struct, frozen=True, kw_only=True):
    """A filter on invalidations. All conditions must hold."""

    statuses: tuple[Status, ...] = ()
    namespace: str | None = None
    """Namespace of the dependent."""
    dependent: str | None = None
    invalidated: str | None = None


class Told(NamedTuple):
    """An invalidation and its dependent."""

    one: Invalidation
    namespace: str
    title: str
    agent: str
    scope: str


def select(session: Session, caller: Caller, which: Which, now: int, *, limit: int, skip: int) -> list[Told]:
    """Read invalidations whose dependents the caller may see, newest first."""
    parts, params = _narrowed(caller, which, now)
    rows = session.assembled(
        ("invalidation_select", *parts, "invalidation.newest_first"), params | {"limit": limit, "skip": skip}
    )
    return [Told(Invalidation(*row[:COLUMNS]), *row[COLUMNS:]) for row in rows]


def count(session: Session, caller: Caller, which: Which, now: int) -> int:
    parts, params = _narrowed(caller, which, now)
    return int(session.assembled(("invalidation_count", *parts), params)[0][0])


_CLAUSES = (
    ("statuses", "invalidation.with_status"),
    ("dependent", "invalidation.of_dependent"),
    ("invalidated", "invalidation.of_invalidated"),
)


def _narrowed(caller: Caller, which: Which, now: int) -> tuple[list[Part], dict[str, Any]]:
    parts, params = memories.narrowed(caller, Filter(namespace=which.namespace), now, "kept")
    for field, part in _CLAUSES:
        if value := getattr(which, field):
            parts.append(part)
            params[field] = value
    return parts, params


def one(session: Session, caller: Caller, id: str) -> Told | None:
    """Read one invalidation if the caller may see its dependent."""
    parts, params = memories.visible(caller)
    rows = session.assembled(("invalidation_select", *parts, "invalidation.one"), params | {"invalidation": id})
    return Told(Invalidation(*rows[0][:COLUMNS]), *rows[0][COLUMNS:]) if rows else None


def seen(session: Session, caller: Caller, ids: Iterable[str], *, kept: bool = False) -> set[str]:
    """Ids of the visible memories among some; deleted ones count unless `kept` is set."""
    wanted = list(ids)
    parts, params = memories.visible(caller)
    parts += ["memory.kept"] if kept else []
    return {row[0] for row in session.assembled(("memory_ids", *parts, "memory.some"), params | {"ids": wanted})}


class Stale(NamedTuple):
    """Why a memory is stale: the nearest reason and the number of reasons."""

    cause: Cause
    status: Status
    hop: int
    since: int
    many: int
    invalidated: str | None
    """None if the caller may not see it."""
    invalidating: str | None


def stale(session: Session, caller: Caller, ids: Sequence[str], now: int) -> dict[str, Stale]:
    """Find which memories are stale and why, including expiries not written yet."""
    if not ids:
        return {}
    pending = [id for (id,) in session.rows("stale_some", ids=list(ids))]
    reasons = _why_stale(session, caller, pending) if pending else {}
    return _with_untold(session, caller, reasons, untold.of(session, ids, now))


def _why_stale(session: Session, caller: Caller, ids: Sequence[str]) -> dict[str, Stale]:
    """Read the reasons of memories that have pending notices."""
    clauses, params = memories.visible(caller)
    parts = ("stale_select", *clauses, "stale_select.heir", *clauses, "stale_select.end")
    return {row[0]: Stale(*row[1:]) for row in session.assembled(parts, params | {"ids": list(ids)})}


def _with_untold(session: Session, caller: Caller, told: dict[str, Stale], more: Sequence[Untold]) -> dict[str, Stale]:
    """Merge in expiries not written yet: keep the nearest, newest reason and count all."""
    visible = seen(session, caller, {one.fell for one in more}) if more else set()
    for one in more:
        source = one.fell if one.fell in visible else None
        fresh, known = Stale(one.cause, "open", one.hop, one.since, 1, source, source), told.get(one.dependent)
        first = fresh if known is None or (fresh.hop, -fresh.since) < (known.hop, -known.since) else known
        told[one.dependent] = first._replace(many=1 if known is None else known.many + 1)
    return told
