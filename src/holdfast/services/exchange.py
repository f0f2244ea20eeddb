"""Taking what another store tells: checked, joined and journalled in one transaction a page, with an outcome each."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from ..domain.change import Change, Name, node_of, signed
from ..domain.clock import STATE, too_far
from ..domain.errors import Conflict
from ..domain.scope import ALL, EVERYTHING, Scope
from ..domain.state import as_change, from_change
from ..storage import conflicts, journal, quarantine, signer
from ..storage.exchange import Greeting, Page, Reached, mark_of, numbers
from ..storage.peers import enrolled, scope_of
from ..storage.port import Session
from ..storage.records import Writing
from ..storage.scoping import Bounds
from ..storage.taking import Outcome, Reason, Refused, Taking
from .standing import raise_taken

RETRIED: tuple[Reason, ...] = ("waits", "future", "unknown_kind")
"""What may be taken later."""
MOST_BACK = 1000
"""Refused changes, the newest ones, that are looked at again with each page."""


class Rejected(NamedTuple):
    """A change that was not taken, and why."""

    change: Change
    reason: Reason
    detail: str


class Turned:
    """What is otherwise after an exchange than before it: what a page turned, a later one may turn back."""

    def __init__(self) -> None:
        self.on: set[str] = set()
        self.off: set[str] = set()

    def by(self, on: Collection[str], off: Collection[str]) -> None:
        """What one page turned."""
        self.on, self.off = (self.on - set(off)) | (set(on) - self.off), (self.off - set(on)) | (set(off) - self.on)


class Taken:
    """What became of the changes that were told."""

    def __init__(self) -> None:
        self._told_first: set[str] = set()
        self.updated: set[str] = set()
        """Memories of which a change showed something else, or stands against something, if only for a while."""
        self.same: set[str] = set()
        self.fates = Turned()
        """Memories that are deleted now and were not, unknown ones among them; and those that are not any more."""
        self.links: set[str] = set()
        self.disputes = Turned()
        """Conflicts that stand now and did not; and those that do not any more."""
        self.met = 0
        """How many changes met a conflict at a store of a release that does not say which ones stand."""
        self.refused: dict[Name, Rejected] = {}

    @property
    def new(self) -> set[str]:
        """Memories that were not here and are; not those that came deleted."""
        return self._told_first - self.deleted

    @property
    def deleted(self) -> set[str]:
        return self.fates.on

    @property
    def conflicts(self) -> int:
        return len(self.disputes.on) + self.met

    @property
    def rejected(self) -> list[Rejected]:
        """What was not taken in the end."""
        return list(self.refused.values())

    def is_forged(self, change: Change) -> bool:
        """Whether nobody vouched for a change that was told."""
        rejected = self.refused.get(Name(change.origin, change.n))
        return rejected is not None and rejected.reason in ("forged", "unsigned")

    def note(self, change: Change, outcome: Outcome) -> None:
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
        """How many memories are other than before, for whoever sees them."""
        return len(self.new | (self.updated - self._told_first))


def take_page(
    write: Writing, page: Page, sender: Greeting, taken: Taken, *, owner: str | None = None, scope: Scope = ALL
) -> None:
    """Take a page inside a transaction. What cannot be taken is kept in quarantine with its reason."""
    keys, before = _keys(write.session, sender), conflicts.all_of(write.session)
    taking = Taking(write, owner=owner, files=page.files, scope=scope)
    fresh = [*map(as_change, page.states), *_unknown(write.session, _changes(page, taken))]
    fresh += _due(write, scope, {Name(change.origin, change.n) for change in fresh})
    fresh += _back(write, scope, {Name(change.origin, change.n) for change in fresh})
    fresh = _without_doubtful(write, fresh, taken, sender)
    while fresh:
        took = _take(write, taking, fresh, keys, taken, sender)
        fresh = _waiting(write.session, scope) if took else []
    taking.finish()
    raise_taken(write, taking.links, taking.risen)
    if taking.erasures or taking.people or taking.remains:
        from .heed import heed

        heed(write, taking)
    after = conflicts.all_of(write.session)
    taken.disputes.by(after - before, before - after)
    taken.fates.by(*taking.fates())
    _rest(write, page, sender, scope)
    _learn(write, keys, {change.origin for change in page.changes if not taken.is_forged(change)})


def _take(
    write: Writing, taking: Taking, changes: Sequence[Change], keys: dict[str, bytes], taken: Taken, sender: Greeting
) -> int:
    """How many were taken; what waited may be next."""
    took, dropped = 0, quarantine.dropped(write.session)
    for change in changes:
        name = Name(change.origin, change.n)
        try:
            _must_be_wanted(dropped, change)
            taken.note(change, _joined(write, taking, change, keys))
            write.session.do("quarantine_drop", origin=change.origin, n=change.n)
            taken.refused.pop(name, None)
            write.learnt.add(change.origin)
            took += 1
        except Refused as error:
            if error.reason != "dropped":
                _put_aside(write, change, error, sender)
            taken.refused[name] = Rejected(change, error.reason, error.detail)
    return took


def _changes(page: Page, taken: Taken) -> list[Change]:
    """The changes of a page; one that poses as a whole record is refused."""
    for change in page.changes:
        if change.origin == STATE:
            taken.refused[Name(STATE, change.n)] = Rejected(change, "invalid", "A whole record is not a change.")
    return [change for change in page.changes if change.origin != STATE]


def _joined(write: Writing, taking: Taking, change: Change, keys: dict[str, bytes]) -> Outcome:
    """A record that was told whole, for which its sender vouches; or a change, for which its author does."""
    if change.origin == STATE:
        return taking.take_state(from_change(change))
    _must_be_theirs(write, change)
    _must_be_signed(change, keys)
    return taking.take(change)


def _unknown(session: Session, changes: Sequence[Change]) -> list[Change]:
    """Those that are not here yet, each once."""
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


def _due(write: Writing, scope: Scope, told: set[Name]) -> list[Change]:
    """What came from a clock that was ahead and whose time has come, if it is not told again just now."""
    waiting = _waiting(write.session, scope, ("future",)) if write.session.row("quarantine_future") else []
    come = [change for change in waiting if not too_far(change.at, write.now // 1000)]
    return [change for change in come if Name(change.origin, change.n) not in told]


def _back(write: Writing, scope: Scope, told: set[Name]) -> list[Change]:
    """What went beyond its sender's namespaces when it came, of records that lie within them by now."""
    if EVERYTHING in scope.take:
        return []
    rows, bounds = write.session.rows("quarantine_refused", limit=MOST_BACK), Bounds(write.session, scope.takes)
    alike = {node for node in {row[1] for row in rows} if scope_of(write.session, node) == scope}
    changes = [msgspec.json.decode(row[0], type=Change) for row in rows if row[1] in alike]
    here = [change for change in changes if Name(change.origin, change.n) not in told]
    return [change for change in reversed(here) if bounds.hold_one(change.kind, change.record)]


def _waiting(session: Session, scope: Scope, reasons: Sequence[Reason] = RETRIED) -> list[Change]:
    """What was put aside and may be taken now: of whom no more is taken than of the sender, and no less."""
    rows = [row for row in session.rows("quarantine_list") if row[2] in reasons]
    alike = {node for node in {row[5] for row in rows} if scope_of(session, node) == scope}
    return [msgspec.json.decode(row[4], type=Change) for row in rows if row[5] in alike]


def _keys(session: Session, sender: Greeting) -> dict[str, bytes]:
    """By which each origin signs: as it was told first, and of an enrolled peer by nobody but who enrolled it."""
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


def _must_be_theirs(write: Writing, change: Change) -> None:
    """What this store gave a number to is here; another change of that number is by a copy that took its name."""
    if change.origin == write.origin:
        raise Refused("forked", "It bears the name of this store, which did not make it: a copy of its file did.")


def _without_doubtful(write: Writing, changes: list[Change], taken: Taken, sender: Greeting) -> list[Change]:
    """Put aside what is told under a name that two stores bear, until the one whose name it is has settled that."""
    doubted = doubtful(write.session, sender)
    why = Refused(
        "forked", "Under this name two stores gave the same numbers: one of them was brought back from a copy."
    )
    for change in changes:
        if change.origin in doubted:
            _put_aside(write, change, why, sender)
            taken.refused[Name(change.origin, change.n)] = Rejected(change, why.reason, why.detail)
    return [change for change in changes if change.origin not in doubted]


def doubtful(session: Session, sender: Greeting) -> frozenset[str]:
    """The names under which a sender has other changes than are here, but for that which this store bears now."""
    current = journal.head_of(session).origin
    others = {origin: told for origin, told in sender.vector.items() if origin != current}
    return frozenset(origin for origin, told in others.items() if differs(session, origin, told))


def differs(session: Session, origin: str, told: Reached) -> bool:
    """Whether the change of a number is another one there; where only what came of it is kept nobody can tell."""
    here = mark_of(session, origin, told.n)
    return here is not None and told.mark not in ("", here)


def _must_be_wanted(dropped: Collection[str], change: Change) -> None:
    if dropped and quarantine.digest_of(change) in dropped:
        raise Refused("dropped", "Somebody here dropped it from quarantine.")


def _must_be_signed(change: Change, keys: dict[str, bytes]) -> None:
    key = keys.get(change.origin)
    if key is None:
        raise Refused("unsigned", f"Nobody has told who signs for {change.origin}.")
    if not is_signed(key, change):
        raise Refused("forged", "Its signature is not that of its author: it was forged or altered.")


def is_signed(key: bytes, change: Change) -> bool:
    """Whether a change is its author's, by the author's key."""
    try:
        return signer.verifies(key, bytes.fromhex(change.signature), signed(change))
    except ValueError:
        return False


def _put_aside(write: Writing, change: Change, why: Refused, sender: Greeting) -> None:
    write.session.do(
        "quarantine_put",
        origin=change.origin,
        n=change.n,
        reason=why.reason,
        detail=why.detail,
        change=msgspec.json.encode(change).decode(),
        peer=sender.node,
        now=write.now,
    )


def _learn(write: Writing, keys: dict[str, bytes], origins: set[str]) -> None:
    own = {origin for origin, *_ in write.session.rows("signer_list")}
    for origin in sorted((origins - own) & keys.keys()):
        write.session.do("author_add", origin=origin, public_key=keys[origin], node=node_of(origin), now=write.now)
    write.learnt.update(origins)
    write.learnt -= {write.origin, STATE}


def _rest(write: Writing, page: Page, sender: Greeting, scope: Scope) -> None:
    """Believe who may tell everything up to where all changes of an origin are in what was told.

    Of another's changes that is believed from an admin peer alone: who overstates it keeps them from being asked for.
    """
    if not page.bases or EVERYTHING not in scope.take:
        return
    known = numbers(write.session)
    for origin, reached in page.bases.items():
        believed = scope.admin or node_of(origin) == sender.node
        if believed and origin != write.origin and reached.n > known.get(origin, 0):
            write.rested[origin] = reached


def must_be_another(here: Greeting, there: Greeting) -> None:
    if here.origin == there.origin:
        raise Conflict("Both are the same store: there is nothing to exchange.")
