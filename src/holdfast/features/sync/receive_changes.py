"""Receive pages of changes: verify, merge and journal each page in one transaction, with an outcome per change."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.features.reflections.depth import raise_taken
from holdfast.features.sync.apply_changes import Outcome, Reason, Refused, Taking
from holdfast.features.sync.listener import SeenOrigins
from holdfast.features.sync.peers.store import enrolled
from holdfast.features.sync.quarantine import store as quarantine
from holdfast.features.sync.quarantine.store import VOUCHED, Quarantined
from holdfast.features.sync.read_changes import Greeting, Page, Reached, mark_of, numbers
from holdfast.features.sync.snapshot import as_change, from_change
from holdfast.kernel.clock import STATE
from holdfast.kernel.errors import Conflict, Invalid
from holdfast.kernel.journal import conflicts as merge_conflicts
from holdfast.kernel.journal import journal, signer
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.change import Change, Name, must_be_named, must_be_whole, node_of, signed
from holdfast.kernel.records.namespace_patterns import ALL, EVERYTHING, Scope
from holdfast.kernel.storage.port import Session

_SIGNATURE = re.compile(r"[0-9a-f]{128}")


class Rejected(NamedTuple):
    """A rejected change and its reason."""

    change: Change
    reason: Reason
    detail: str


class Turned:
    """Net changes of an exchange: a later page may reverse what an earlier one did."""

    def __init__(self) -> None:
        self.on: set[str] = set()
        self.off: set[str] = set()

    def by(self, on: Collection[str], off: Collection[str]) -> None:
        """Add the changes of one page."""
        self.on, self.off = (self.on - set(off)) | (set(on) - self.off), (self.off - set(on)) | (set(off) - self.on)


class Taken:
    """The outcomes of received changes in one direction."""

    def __init__(self) -> None:
        self._told_first: set[str] = set()
        self.updated: set[str] = set()
        """Memories that a change updated or brought into conflict, even if only temporarily."""
        self.same: set[str] = set()
        self.fates = Turned()
        """Memories deleted now (including those that arrived deleted), and memories that live again."""
        self.links: set[str] = set()
        self.disputes = Turned()
        """New conflicts, and resolved ones."""
        self.met = 0
        """Conflicting changes at a store whose release does not report the conflicts by id."""
        self.refused: dict[Name, Rejected] = {}
        self.applied: set[Name] = set()

    def add(self, later: "Taken") -> None:
        """Add the outcomes of a later transaction."""
        self._told_first |= later._told_first
        self.updated |= later.updated
        self.same |= later.same
        self.links |= later.links
        self.fates.by(later.fates.on, later.fates.off)
        self.disputes.by(later.disputes.on, later.disputes.off)
        self.met += later.met
        for name in later.applied:
            self.refused.pop(name, None)
        self.refused |= later.refused
        self.applied |= later.applied

    @property
    def new(self) -> set[str]:
        """New memories, without those that arrived deleted."""
        return self._told_first - self.deleted

    @property
    def deleted(self) -> set[str]:
        return self.fates.on

    @property
    def conflicts(self) -> int:
        return len(self.disputes.on) + self.met

    @property
    def rejected(self) -> list[Rejected]:
        """The changes that stayed rejected."""
        return list(self.refused.values())

    def note(self, change: Change, outcome: Outcome) -> None:
        name = Name(change.origin, change.n)
        self.applied.add(name)
        self.refused.pop(name, None)
        if change.kind == "link" and outcome != "noop":
            self.links.add(change.record)
        if change.kind != "memory":
            return
        if outcome == "new":
            self._told_first.add(change.record)
        elif outcome == "noop":
            self.same.add(change.record)
        else:
            self.updated.add(change.record)

    @property
    def memories(self) -> int:
        """Count new and changed memories."""
        return len(self.new | (self.updated - self._told_first))


APPLY_LISTENERS: list[Callable[[Transaction, Taking], None]] = []


def on_apply(listener: Callable[[Transaction, Taking], None]) -> None:
    """Register a callback that runs after a page was applied, in the same transaction."""
    APPLY_LISTENERS.append(listener)


def take_page(
    write: Transaction, page: Page, sender: Greeting, taken: Taken, *, owner: str | None = None, scope: Scope = ALL
) -> None:
    """Apply a page in a transaction. Rejected changes go to quarantine with their reason."""
    keys = _keys(write.session, sender)
    applier = ChangeApplier(write, taken, keys, sender.node, owner=owner, scope=scope, files=page.files)
    fresh = [*map(as_change, page.states), *_unknown(write.session, applier.well_formed(page.changes))]
    applier.apply(_without_doubtful(applier, fresh, sender))
    applier.finish()
    _rest(write, page, sender, scope)


class ChangeApplier:
    """Apply changes of one sender in a transaction and record the outcome of each."""

    def __init__(
        self,
        write: Transaction,
        taken: Taken,
        keys: Mapping[str, bytes],
        node: str,
        *,
        owner: str | None,
        scope: Scope,
        files: Mapping[str, bytes],
    ) -> None:
        self.session = write.session
        self._write, self._taken, self._keys, self._node = write, taken, keys, node
        self._taking = Taking(write, owner=owner, files=files, scope=scope)
        self._conflicts = merge_conflicts.all_of(write.session)
        self._dropped = quarantine.dropped(write.session)
        self._verified: set[str] = set()
        """Origins with a verified signature."""

    def well_formed(self, changes: Sequence[Change]) -> list[Change]:
        """Return the well-formed changes; reject the others before any lookup."""
        found = []
        for change in changes:
            try:
                must_be_whole(change)
                found.append(change)
            except Invalid as error:
                self.refuse(change, Refused("invalid", error.message), keep=change.origin != STATE)
        return found

    def apply(self, changes: Sequence[Change]) -> None:
        """Apply changes in order; retry changes that wait for others in the same batch."""
        while changes:
            refused = [(change, why) for change in changes if (why := self._refusal_of(change)) is not None]
            waiting = [change for change, why in refused if why.reason == "waits"]
            if len(waiting) == len(changes):
                waiting = []
            for change, why in refused:
                if not (waiting and why.reason == "waits"):
                    self.refuse(change, why)
            changes = waiting

    def refuse(self, change: Change, why: Refused, *, keep: bool = True) -> None:
        """Record a rejection, and quarantine the change if it has a valid name."""
        self._taken.refused[Name(change.origin, change.n)] = Rejected(change, why.reason, why.detail)
        keep = keep and why.reason != "dropped" and _has_name(change)
        if keep and not self._displaces_better(change, why):
            put_aside(self._write, change, why, self._node)

    def finish(self) -> None:
        """Run everything that depends on all applied changes: title groups, depths, listeners, counts."""
        taking, taken = self._taking, self._taken
        taking.finish()
        raise_taken(self._write, taking.links, taking.risen)
        for listener in APPLY_LISTENERS:
            listener(self._write, taking)
        after = merge_conflicts.all_of(self.session)
        taken.disputes.by(after - self._conflicts, self._conflicts - after)
        taken.fates.by(*taking.fates())
        self._learn()

    def _refusal_of(self, change: Change) -> Refused | None:
        """Apply a change; return the reason if it is rejected."""
        try:
            outcome = self._applied(change)
        except Refused as why:
            return why
        self._taken.note(change, outcome)
        self.session.do("quarantine_drop", origin=change.origin, n=change.n)
        self._write.local(SeenOrigins).learnt.add(change.origin)
        return None

    def _applied(self, change: Change) -> Outcome:
        """Apply a snapshot (vouched for by its sender) or a change (signed by its author)."""
        if self._dropped and quarantine.digest_of(change) in self._dropped:
            raise Refused("dropped", "It was dropped from quarantine here.")
        if change.origin == STATE:
            return self._taking.take_state(from_change(change))
        if change.origin == self._write.origin:
            raise Refused(
                "forked", "This change uses our replica id but was not made here: the database file was copied."
            )
        _must_be_signed(change, self._keys)
        self._verified.add(change.origin)
        return self._taking.take(change)

    def _displaces_better(self, change: Change, why: Refused) -> bool:
        """Whether quarantine holds a better change under this name: validly signed, or with its text."""
        row = self.session.row("quarantine_get", origin=change.origin, n=change.n)
        if row is None or row[2] not in VOUCHED:
            return False
        held = msgspec.json.decode(row[4], type=Change)
        return held != change and (why.reason not in VOUCHED or (change.erased is not None and held.erased is None))

    def _learn(self) -> None:
        """Store the public key of each origin with a verified signature; the first key is kept."""
        own = {origin for origin, *_ in self.session.rows("signer_list")}
        for origin in sorted(self._verified - own):
            about = {"public_key": self._keys[origin], "node": node_of(origin), "now": self._write.now}
            self.session.do("author_add", origin=origin, **about)
        self._write.local(SeenOrigins).learnt -= {self._write.origin, STATE}


def _has_name(change: Change) -> bool:
    """Whether a change has a storable origin, number and record id."""
    try:
        must_be_named(change)
    except Invalid:
        return False
    return bool(change.record)


def apply_quarantined(
    write: Transaction,
    held: Sequence[Quarantined],
    taken: Taken,
    *,
    owner: str | None,
    scope: Scope,
    files: Mapping[str, bytes],
) -> None:
    """Apply quarantined changes of one sender with the keys known now, as if they had just arrived."""
    sender = Greeting(node=held[0].peer, origin="", seq=0, now=write.now, vector={}, authors={})
    keys = _keys(write.session, sender)
    applier = ChangeApplier(write, taken, keys, sender.node, owner=owner, scope=scope, files=files)
    whole = [one.change for one in held if one.change.origin == STATE]
    changes = applier.well_formed([one.change for one in held if one.change.origin != STATE])
    fresh = _unknown(write.session, changes)
    for origin, n in {Name(one.origin, one.n) for one in changes} - {Name(one.origin, one.n) for one in fresh}:
        write.session.do("quarantine_drop", origin=origin, n=n)
    applier.apply([*whole, *fresh])
    applier.finish()


def _unknown(session: Session, changes: Sequence[Change]) -> list[Change]:
    """Return the changes that are not here yet, without duplicates."""
    told: dict[str, set[int]] = {}
    for change in changes:
        told.setdefault(change.origin, set()).add(change.n)
    rested = numbers(session)
    known = {
        Name(origin, row[0])
        for origin, many in told.items()
        for row in session.rows("change_known", origin=origin, numbers=sorted(many))
    }
    fresh: dict[Name, Change] = {}
    for change in changes:
        name = Name(change.origin, change.n)
        if name not in known and change.n > rested.get(change.origin, 0):
            fresh.setdefault(name, change)
    return list(fresh.values())


def _keys(session: Session, sender: Greeting) -> dict[str, bytes]:
    """Return the public key per origin: the first one received; for an enrolled peer, the enrolled key only."""
    peers = {peer.node: peer.public_key for peer in enrolled(session)}
    told = {origin: peers.get(node_of(origin)) or _key(key) for origin, key in sender.authors.items()}
    known = {origin: key for origin, key, _ in session.rows("author_list")}
    own = {origin: key for origin, key, _ in session.rows("signer_list")}
    return {origin: key for origin, key in told.items() if key} | known | own


def _key(told: str) -> bytes | None:
    try:
        return bytes.fromhex(told)
    except ValueError:
        return None


def _without_doubtful(applier: ChangeApplier, changes: list[Change], sender: Greeting) -> list[Change]:
    """Quarantine changes of forked origins until their own store has repaired them."""
    doubted = doubtful(applier.session, sender)
    why = Refused(
        "forked", "Two stores used the same numbers under this replica id: one of them was restored from a copy."
    )
    for change in changes:
        if change.origin in doubted:
            applier.refuse(change, why)
    return [change for change in changes if change.origin not in doubted]


def doubtful(session: Session, sender: Greeting) -> frozenset[str]:
    """Find the origins whose changes differ between a sender and this store, except the current own one."""
    current = journal.head_of(session).origin
    others = {origin: told for origin, told in sender.vector.items() if origin != current}
    return frozenset(origin for origin, told in others.items() if differs(session, origin, told))


def differs(session: Session, origin: str, told: Reached) -> bool:
    """Whether a change differs there. A compacted change cannot be compared and counts as equal."""
    here = mark_of(session, origin, told.n)
    return here is not None and told.mark not in ("", here)


def _must_be_signed(change: Change, keys: Mapping[str, bytes]) -> None:
    key = keys.get(change.origin)
    if key is None:
        raise Refused("unsigned", f"No public key is known for {change.origin}.")
    if not is_signed(key, change):
        raise Refused("forged", "Its signature does not match its author's key: it was forged or altered.")


def is_signed(key: bytes, change: Change) -> bool:
    """Whether a change has a valid signature of its author's key."""
    if not _SIGNATURE.fullmatch(change.signature):
        return False
    return signer.verifies(key, bytes.fromhex(change.signature), signed(change))


def put_aside(write: Transaction, change: Change, why: Refused, node: str) -> None:
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


def _rest(write: Transaction, page: Page, sender: Greeting, scope: Scope) -> None:
    """Record the baselines of a page, from a sender without namespace limits.

    Baselines of other origins are accepted from admin peers only: a false one would hide their changes.
    """
    if not page.bases or EVERYTHING not in scope.take:
        return
    known = numbers(write.session)
    for origin, reached in page.bases.items():
        believed = scope.admin or node_of(origin) == sender.node
        if believed and origin != write.origin and reached.n > known.get(origin, 0):
            write.local(SeenOrigins).rested[origin] = reached


def must_be_another(here: Greeting, there: Greeting) -> None:
    if here.origin == there.origin:
        raise Conflict("Both are the same store: nothing to sync.")
