"""Apply pages of changes of another store: verify and merge each in one transaction, with an outcome per change."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from holdfast.features.graph.depth import raise_synced_depths
from holdfast.features.sync.merge_changes import ChangeMerger, Outcome
from holdfast.features.sync.peers.store import list_peers
from holdfast.features.sync.quarantine.store import AUTHENTIC, QuarantinedChange, change_digest
from holdfast.features.sync.read_changes import Handshake, Page, SeenOrigins, VectorEntry, find_mark, read_numbers
from holdfast.features.sync.record_snapshots import as_change, from_change
from holdfast.features.sync.validate_changes import Reason, Refusal, require_signature
from holdfast.kernel.errors import Conflict, Invalid
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.change import Change, ChangeId, check_change, check_change_id, node_of
from holdfast.kernel.records.namespace_patterns import EVERYTHING, FULL_SCOPE, PeerScope
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import RECORD_SNAPSHOT


class RejectedChange(NamedTuple):
    """A rejected change and its reason."""

    change: Change
    reason: Reason
    detail: str


MAX_ERRORS = 100
"""Rejected changes listed in a response; all of them are in quarantine."""


class RejectedChangeView(Struct, frozen=True, kw_only=True):
    """A change that one of the stores rejected."""

    by: Literal["here", "there"]
    kind: str
    record: str
    origin: str
    number: int
    reason: str
    detail: str


class NetChanges:
    """Net changes of an exchange: a later page may reverse what an earlier one did."""

    def __init__(self) -> None:
        self.on: set[str] = set()
        self.off: set[str] = set()

    def add(self, on: Collection[str], off: Collection[str]) -> None:
        """Add the changes of one page."""
        self.on, self.off = (self.on - set(off)) | (set(on) - self.off), (self.off - set(on)) | (set(off) - self.on)


class SyncResult:
    """The outcomes of received changes in one direction."""

    def __init__(self) -> None:
        self._new_ids: set[str] = set()
        self.updated: set[str] = set()
        """Memories that a change updated or brought into conflict, even if only temporarily."""
        self.unchanged: set[str] = set()
        self.deletions = NetChanges()
        """Memories deleted now (including those that arrived deleted), and memories that live again."""
        self.links: set[str] = set()
        self.conflict_changes = NetChanges()
        """New conflicts, and resolved ones."""
        self.unnamed_conflicts = 0
        """Conflicting changes at a store whose release does not report the conflicts by id."""
        self.rejected_by_name: dict[ChangeId, RejectedChange] = {}
        self.applied: set[ChangeId] = set()

    def add(self, later: "SyncResult") -> None:
        """Add the outcomes of a later transaction."""
        self._new_ids |= later._new_ids
        self.updated |= later.updated
        self.unchanged |= later.unchanged
        self.links |= later.links
        self.deletions.add(later.deletions.on, later.deletions.off)
        self.conflict_changes.add(later.conflict_changes.on, later.conflict_changes.off)
        self.unnamed_conflicts += later.unnamed_conflicts
        for name in later.applied:
            self.rejected_by_name.pop(name, None)
        self.rejected_by_name |= later.rejected_by_name
        self.applied |= later.applied

    @property
    def new(self) -> set[str]:
        """New memories, without those that arrived deleted."""
        return self._new_ids - self.deleted_ids

    @property
    def deleted_ids(self) -> set[str]:
        return self.deletions.on

    @property
    def conflicts(self) -> int:
        return len(self.conflict_changes.on) + self.unnamed_conflicts

    @property
    def list_rejected(self) -> list[RejectedChange]:
        """The changes that stayed rejected."""
        return list(self.rejected_by_name.values())

    def describe_rejected(self, by: Literal["here", "there"]) -> list[RejectedChangeView]:
        """Describe the first changes that stayed rejected."""
        return [
            RejectedChangeView(
                by=by,
                kind=one.change.kind,
                record=one.change.record,
                origin=one.change.origin,
                number=one.change.n,
                reason=one.reason,
                detail=one.detail,
            )
            for one in self.list_rejected[:MAX_ERRORS]
        ]

    def note(self, change: Change, outcome: Outcome) -> None:
        name = ChangeId(change.origin, change.n)
        self.applied.add(name)
        self.rejected_by_name.pop(name, None)
        if change.kind == "link" and outcome != "noop":
            self.links.add(change.record)
        if change.kind != "memory":
            return
        if outcome == "new":
            self._new_ids.add(change.record)
        elif outcome == "noop":
            self.unchanged.add(change.record)
        else:
            self.updated.add(change.record)

    @property
    def memory_count(self) -> int:
        """Count new and changed memories."""
        return len(self.new | (self.updated - self._new_ids))


class Endpoint(Protocol):
    """One side of an exchange, a local store or a server: it reads changes for the other and applies the other's."""

    def read_handshake(self) -> Handshake:
        """Return its current identity and version vector."""

    def get_cursor(self, sender: Handshake) -> int:
        """Return its cursor in the journal of another store."""

    def read_changes(self, after: int, known: Mapping[str, int], limit: int) -> Page:
        """Read a page of its journal after a sequence number, without known changes."""

    def apply_changes(self, page: Page, sender: Handshake, result: SyncResult) -> None:
        """Apply a page in one transaction, durable on return; record the outcome of each change."""

    def open_dry_run(self) -> AbstractContextManager["Endpoint"]:
        """Return the same endpoint for a dry run: everything applied is rolled back on exit."""

    def find_forked_origins(self, asker: Handshake) -> frozenset[str]:
        """Find the origins whose changes differ between it and another store."""

    def forget_handshake(self) -> None:
        """Forget the cached handshake: the other side changed its replica id."""


class ChangeApplier:
    """Verify and merge changes of one sender in a transaction; record the outcome of each.

    Rejected changes go to quarantine with their reason.
    """

    def __init__(
        self,
        write: Transaction,
        sender: Handshake,
        result: SyncResult,
        *,
        owner: str | None = None,
        scope: PeerScope = FULL_SCOPE,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self.session = write.session
        self._write, self._sender, self._result, self._scope = write, sender, result, scope
        self._keys = _load_keys(write.session, sender)
        self._merger = ChangeMerger(write, owner=owner, files=files, scope=scope)
        self._conflicts = _list_conflict_ids(write.session)
        self._dropped = {row[0] for row in write.session.rows("dropped_list")}
        """Digests of changes that were dropped from quarantine."""
        self._verified_origins: set[str] = set()
        """Origins with a verified signature."""
        self.has_quarantined = write.session.row("quarantine_any") is not None
        """Whether changes are in quarantine."""

    def verify(self, page: Page) -> list[Change]:
        """Return the changes of a page to merge, its snapshots first: well-formed, unknown here, and authentic."""
        unknown = _list_unknown(self.session, self.list_well_formed(page.changes))
        return self.list_authentic(self._list_unforked([*map(as_change, page.states), *unknown]))

    def list_well_formed(self, changes: Sequence[Change]) -> list[Change]:
        """Return the well-formed changes; reject the others before any lookup."""
        valid = []
        for change in changes:
            try:
                check_change(change)
                valid.append(change)
            except Invalid as error:
                self.refuse(change, Refusal("invalid", error.message), keep=change.origin != RECORD_SNAPSHOT)
        return valid

    def list_authentic(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes that their authors signed, and the snapshots, which their sender vouches for."""
        authentic = []
        for change in changes:
            try:
                self._check_author(change)
                authentic.append(change)
            except Refusal as why:
                self.refuse(change, why)
        return authentic

    def merge(self, changes: Sequence[Change]) -> None:
        """Merge changes in order; retry changes that wait for others in the same batch."""
        while changes:
            refused = [(change, why) for change in changes if (why := self._merge_or_refuse(change)) is not None]
            waiting = [change for change, why in refused if why.reason == "waits"]
            if len(waiting) == len(changes):
                waiting = []
            for change, why in refused:
                if not (waiting and why.reason == "waits"):
                    self.refuse(change, why)
            changes = waiting

    def refuse(self, change: Change, why: Refusal, *, keep: bool = True) -> None:
        """Record a rejection, and quarantine the change if it has a valid name."""
        self._result.rejected_by_name[ChangeId(change.origin, change.n)] = RejectedChange(
            change, why.reason, why.detail
        )
        keep = keep and why.reason != "dropped" and _has_name(change)
        if keep and not self._displaces_better(change, why):
            put_in_quarantine(self._write, change, why, self._sender.node)
            self.has_quarantined = True

    def finish(self, baselines: Mapping[str, VectorEntry] | None = None) -> None:
        """Do everything that depends on all merged changes: title groups, depths, erasures, counts, baselines."""
        merger, result = self._merger, self._result
        merger.finish()
        if merger.links or merger.raised_memories:
            raise_synced_depths(self._write, merger.links, merger.raised_memories)
        merger.apply_erasures()
        after = _list_conflict_ids(self.session)
        result.conflict_changes.add(after - self._conflicts, self._conflicts - after)
        result.deletions.add(*merger.list_deleted_and_restored())
        self._record_authors()
        self._record_baselines(baselines or {})

    def _list_unforked(self, changes: list[Change]) -> list[Change]:
        """Quarantine changes of forked origins until their own store has repaired them; return the others."""
        forked = find_forked_origins(self.session, self._sender)
        why = Refusal(
            "forked", "Two stores used the same numbers under this replica id: one of them was restored from a copy."
        )
        for change in changes:
            if change.origin in forked:
                self.refuse(change, why)
        return [change for change in changes if change.origin not in forked]

    def _merge_or_refuse(self, change: Change) -> Refusal | None:
        """Merge a change; return the reason if it is rejected."""
        try:
            if change.origin == RECORD_SNAPSHOT:
                outcome = self._merger.merge_snapshot(from_change(change))
            else:
                outcome = self._merger.merge_change(change)
        except Refusal as why:
            return why
        self._result.note(change, outcome)
        if self.has_quarantined:
            self.session.do("quarantine_drop", origin=change.origin, n=change.n)
        self._write.local[SeenOrigins].origins.add(change.origin)
        return None

    def _check_author(self, change: Change) -> None:
        """Raise Refusal if a change was dropped here before, or its author did not sign it; snapshots have none."""
        if self._dropped and change_digest(change) in self._dropped:
            raise Refusal("dropped", "It was dropped from quarantine here.")
        if change.origin == RECORD_SNAPSHOT:
            return
        if change.origin == self._write.origin:
            raise Refusal(
                "forked", "This change uses our replica id but was not made here: the database file was copied."
            )
        require_signature(change, self._keys)
        self._verified_origins.add(change.origin)

    def _displaces_better(self, change: Change, why: Refusal) -> bool:
        """Whether quarantine holds a better change under this name: validly signed, or with its text."""
        row = self.session.row("quarantine_get", origin=change.origin, n=change.n)
        if row is None or row[2] not in AUTHENTIC:
            return False
        quarantined = msgspec.json.decode(row[4], type=Change)
        return quarantined != change and (
            why.reason not in AUTHENTIC or (change.erased is not None and quarantined.erased is None)
        )

    def _record_authors(self) -> None:
        """Store the public key of each origin with a verified signature; the first key is kept."""
        own = {origin for origin, *_ in self.session.rows("signer_list")}
        for origin in sorted(self._verified_origins - own):
            about = {"public_key": self._keys[origin], "node": node_of(origin), "now": self._write.now}
            self.session.do("replica_add", origin=origin, **about)
        self._write.local[SeenOrigins].origins -= {self._write.origin, RECORD_SNAPSHOT}

    def _record_baselines(self, baselines: Mapping[str, VectorEntry]) -> None:
        """Record the baselines of a sender without namespace limits.

        Baselines of other origins are accepted from admin peers only: a false one would hide their changes.
        """
        if not baselines or EVERYTHING not in self._scope.take:
            return
        known = read_numbers(self.session)
        for origin, reached in baselines.items():
            is_trusted = self._scope.admin or node_of(origin) == self._sender.node
            if is_trusted and origin != self._write.origin and reached.n > known.get(origin, 0):
                self._write.local[SeenOrigins].baselines[origin] = reached


def _list_conflict_ids(session: Session) -> set[str]:
    return {row[0] for row in session.rows("conflict_ids")}


def _has_name(change: Change) -> bool:
    """Whether a change has a storable origin, number and record id."""
    try:
        check_change_id(change)
    except Invalid:
        return False
    return bool(change.record)


def apply_quarantined(
    write: Transaction,
    quarantined: Sequence[QuarantinedChange],
    result: SyncResult,
    *,
    owner: str | None,
    scope: PeerScope,
    files: Mapping[str, bytes],
) -> None:
    """Verify and merge quarantined changes of one sender with the keys known now, as if they had just arrived."""
    sender = Handshake(node=quarantined[0].peer, origin="", seq=0, now=write.now, vector={}, authors={})
    applier = ChangeApplier(write, sender, result, owner=owner, scope=scope, files=files)
    snapshots = [one.change for one in quarantined if one.change.origin == RECORD_SNAPSHOT]
    changes = applier.list_well_formed([one.change for one in quarantined if one.change.origin != RECORD_SNAPSHOT])
    unknown = _list_unknown(write.session, changes)
    for origin, n in {ChangeId(one.origin, one.n) for one in changes} - {
        ChangeId(one.origin, one.n) for one in unknown
    }:
        write.session.do("quarantine_drop", origin=origin, n=n)
    applier.merge(applier.list_authentic([*snapshots, *unknown]))
    applier.finish()


def _list_unknown(session: Session, changes: Sequence[Change]) -> list[Change]:
    """Return the changes that are not here yet, without duplicates."""
    numbers_by_origin: dict[str, set[int]] = {}
    for change in changes:
        numbers_by_origin.setdefault(change.origin, set()).add(change.n)
    complete_up_to = read_numbers(session)
    known = {
        ChangeId(origin, row[0])
        for origin, many in numbers_by_origin.items()
        for row in session.rows("change_known", origin=origin, numbers=sorted(many))
    }
    fresh: dict[ChangeId, Change] = {}
    for change in changes:
        name = ChangeId(change.origin, change.n)
        if name not in known and change.n > complete_up_to.get(change.origin, 0):
            fresh.setdefault(name, change)
    return list(fresh.values())


def _load_keys(session: Session, sender: Handshake) -> dict[str, bytes]:
    """Return the public key per origin: the first one received; for an enrolled peer, the enrolled key only."""
    keys = {origin: key for statement in ("replica_list", "signer_list") for origin, key, _ in session.rows(statement)}
    received = {origin: key for origin, key in sender.authors.items() if origin not in keys}
    peers = {peer.node: peer.public_key for peer in list_peers(session)} if received else {}
    for origin, text in received.items():
        if key := peers.get(node_of(origin)) or _parse_key(text):
            keys[origin] = key
    return keys


def _parse_key(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def find_forked_origins(session: Session, sender: Handshake) -> frozenset[str]:
    """Find the origins whose changes differ between a sender and this store, except the current own one."""
    current = journal.get_head(session).origin
    others = {origin: entry for origin, entry in sender.vector.items() if origin != current}
    return frozenset(origin for origin, entry in others.items() if is_different(session, origin, entry))


def is_different(session: Session, origin: str, entry: VectorEntry) -> bool:
    """Whether the last change of an origin differs in another store's version vector.

    A compacted change cannot be compared and counts as equal.
    """
    mark = find_mark(session, origin, entry.n)
    return mark is not None and entry.mark not in ("", mark)


def put_in_quarantine(write: Transaction, change: Change, why: Refusal, node: str) -> None:
    """Quarantine a change with its reason and sender."""
    write.session.do(
        "quarantine_put",
        origin=change.origin,
        n=change.n,
        reason=why.reason,
        detail=why.detail,
        change=msgspec.json.encode(change).decode(),
        peer=node,
        now=write.now,
    )


def require_different_stores(here: Handshake, there: Handshake) -> None:
    """Raise Conflict if both are the same store."""
    if here.origin == there.origin:
        raise Conflict("Both are the same store: nothing to sync.")
