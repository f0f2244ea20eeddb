"""Collect the changes of a transaction that affect dependents; write and resolve their notices when it ends."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.features.namespaces import policy_store
from holdfast.features.reflections.depth import keep_depth
from holdfast.features.reflections.invalidation import (
    DERIVATION_RELATIONS,
    INVALIDATION,
    PENDING_STATUSES,
    RESTORED_REASON,
    SOURCE_RELATIONS,
    Cause,
    Invalidation,
    SourceStatus,
    invalidation_id,
)
from holdfast.features.reflections.invalidation_store import find_dependents, read_statuses
from holdfast.kernel.journal.transaction import Transaction, TransactionListener
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session


class ChangeSet:
    """Changes of one transaction that affect dependents; evaluated when it ends."""

    def __init__(self) -> None:
        self.unavailable: set[str] = set()
        self.restored: set[str] = set()
        self.changed: set[str] = set()
        """Sources changed by a peer."""
        self.superseded: set[tuple[str, str]] = set()
        """Pairs of source and replacement."""
        self.ended_links: set[tuple[str, str]] = set()
        """Ended source links: pairs of source and dependent."""
        self.derivations: set[tuple[str, str]] = set()
        """New derivations: pairs of source and derived memory."""
        self.new_links: set[tuple[str, str]] = set()
        """New source links: pairs of source and dependent."""
        self.arrived_unavailable: set[str] = set()
        """Memories that arrived unavailable: memories derived from them elsewhere replace them."""
        self.written_notices: set[str] = set()
        """Invalidations written in this transaction: they are not overwritten."""

    def __bool__(self) -> bool:
        return bool(
            self.unavailable or self.restored or self.changed or self.superseded or self.ended_links or self.new_links
        )

    def add_memory(self, before: Memory | None, after: Memory, now: int, *, expired: bool = False) -> None:
        """Record a written memory. `over`: its expiry counts now; otherwise garbage collection reports it."""
        there = not expired and _is_available(after, now)
        if before is None:
            self.arrived_unavailable.update([] if there else [after.id])
        elif not there:
            if _is_available(before, now):
                self.unavailable.add(after.id)
        elif not _is_available(before, now) or _is_past_expiry(before, now):
            self.restored.add(after.id)

    def add_link(self, before: Link | None, after: Link, now: int) -> None:
        """Record a created or changed link."""
        if after.relation == "supersedes":
            self._add_supersession(before, after, now)
        elif after.relation in SOURCE_RELATIONS:
            self._add_source_link(before, after, now)

    def _add_supersession(self, before: Link | None, link: Link, now: int) -> None:
        """A link whose start passed since it was last written may not have been reported yet."""
        was = before is not None and _supersedes_at(before, before.updated_at)
        if _supersedes_at(link, now):
            if not was:
                self.superseded.add((link.target, link.source))
        elif before is not None and (was or _supersedes_at(before, now)):
            self.superseded.discard((link.target, link.source))
            self.restored.add(link.target)

    def _add_source_link(self, before: Link | None, link: Link, now: int) -> None:
        """A link whose end passed since it was last written may not have been reported yet."""
        known, held = before is not None, before is not None and _is_valid_at(before, now)
        if not _is_valid_at(link, now):
            if link.state == "live" and before is not None and _is_valid_at(before, before.updated_at):
                self.ended_links.add((link.target, link.source))
            return
        if held:
            return
        self.new_links.add((link.target, link.source))
        if known:
            self.restored.add(link.target)
        elif link.relation in DERIVATION_RELATIONS:
            self.derivations.add((link.target, link.source))


def _is_available(memory: Memory, now: int) -> bool:
    return memory.state == "live" and (memory.valid_until is None or memory.valid_until > now)


def _is_past_expiry(memory: Memory, now: int) -> bool:
    return memory.expires_at is not None and memory.expires_at <= now


def _supersedes_at(link: Link, now: int) -> bool:
    """Whether a supersedes link is in force: it may start later."""
    return _is_valid_at(link, now) and link.valid_from <= now


def _is_valid_at(link: Link, now: int) -> bool:
    return link.state == "live" and (link.valid_until is None or link.valid_until > now)


class InvalidationListener(TransactionListener):
    """Notifies the dependents of memories that were deleted, superseded, changed or expired."""

    def adjust(self, before: Any, after: Any) -> Any:
        """Never lower the depth of a reflection."""
        return keep_depth(before, after) if isinstance(after, Memory) else after

    def on_write(self, tx: Transaction, before: Any, record: Any, *, is_expired: bool) -> None:
        changes = tx.local[ChangeSet]
        match record:
            case Memory():
                changes.add_memory(before if isinstance(before, Memory) else None, record, tx.now, expired=is_expired)
            case Link():
                changes.add_link(before if isinstance(before, Link) else None, record, tx.now)
            case Invalidation():
                changes.written_notices.add(record.id)

    def on_expire(self, tx: Transaction, ids: Collection[str]) -> None:
        tx.local[ChangeSet].unavailable.update(ids)

    def on_flush(self, tx: Transaction) -> None:
        if changes := tx.local[ChangeSet]:
            tx.notices.extend(propagate(tx, changes))


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
    statuses = read_statuses(write.session, {*changes.unavailable, *changes.changed, *(target for target, _ in pairs)})
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
    known = read_statuses(
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
        self._statuses = read_statuses(session, ids)
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
    changes = write.local[ChangeSet]
    changes.superseded.update((row[0], row[1]) for row in started)
    changes.ended_links.update((row[0], row[1]) for row in unlinked)
