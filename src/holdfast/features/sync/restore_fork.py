"""Detect and repair forked origins: two histories under one replica id, after a database file was copied."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.features.sync import fork_store as fork
from holdfast.features.sync import read_changes as telling
from holdfast.features.sync.endpoint import End, StoreEnd
from holdfast.features.sync.fork_store import Mended
from holdfast.features.sync.read_changes import Greeting, Reached
from holdfast.features.sync.receive_changes import differs, doubtful, is_signed
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Forbidden
from holdfast.kernel.journal import journal
from holdfast.kernel.records.change import Change, mark, node_of
from holdfast.kernel.storage.port import Session

PAGE = 500


class Told(NamedTuple):
    """A change of an origin, as another store has it."""

    n: int
    mark: str
    signed: bool
    """Whether its signature is valid."""


def settled(here: End, there: End, *, only_here: bool = False) -> list[Mended]:
    """Repair whichever local store was restored from a copy, before any change is exchanged.

    `only_here`: leave a source that is only read unchanged, if all its changes are known here.
    """
    found = []
    for mine, other in ((here, there), (there, here)):
        if isinstance(mine, StoreEnd):
            if not (only_here and mine is there and _knows_all_of(other, mine.greet())):
                found += settle(mine.hold, other, believes=mine.scope.admin)
            found += _adopted(mine.hold, other)
            if found:
                other.anew()
    return found


def _knows_all_of(here: End, theirs: Greeting) -> bool:
    """Whether a store has the last own change of another store, and so all before it."""
    last = theirs.vector.get(theirs.origin)
    if last is None or not isinstance(here, StoreEnd):
        return last is None
    with here.hold.reading() as session:
        return telling.mark_of(session, theirs.origin, last.n) == last.mark


def _adopted(hold: Hold, other: End) -> list[Mended]:
    """Follow the repair of another store: treat changes received from its copy as the reissued ones."""
    theirs = other.greet()
    with hold.reading() as session:
        mine, own = telling.greet(session, hold.now()), {origin for origin, *_ in session.rows("signer_list")}
        doubted = doubtful(session, theirs) | other.doubts(mine)
        keys = {origin: key for origin, key, _ in session.rows("author_list")}
    found = []
    for name in sorted(name for name in doubted - own if name in mine.vector and _has_settled(theirs, name)):
        signed = [one for one in _told(other, name, theirs.vector, keys.get(name, b"")) if one.signed]
        common = _common(hold, name, mine, theirs, _marks(signed))
        with hold.writing() as write:
            found.append(fork.adopt(write, hold.store, name, theirs.origin, common))
    return found


def _has_settled(theirs: Greeting, name: str) -> bool:
    return node_of(name) == theirs.node and name != theirs.origin


def forked_between(here: End, there: End) -> frozenset[str]:
    """Find forked origins of third stores: one of the two endpoints received changes of a copy."""
    return here.doubts(there.greet()) | there.doubts(here.greet())


def settle(hold: Hold, other: End, *, believes: bool) -> list[Mended]:
    """Continue under a new replica id if another store has more or different changes of the current one.

    An untrusted store must prove it with such a change, signed by this store's key.
    """
    theirs = other.greet()
    with hold.reading() as session:
        mine = telling.greet(session, hold.now())
        if not _is_forked(session, mine, theirs):
            return []
        key = journal.head_of(session).public_key
    told = [one for one in _told(other, mine.origin, theirs.vector, key) if believes or one.signed]
    if not (believes or _is_shown(hold, mine, told)):
        raise Forbidden(
            f"{theirs.node} claims changes of this store that are unknown here, but cannot show any. Nothing was "
            "exchanged. If this store was restored from a copy, mark that peer admin and try again."
        )
    common = _common(hold, mine.origin, mine, theirs, _marks(told))
    with hold.writing() as write:
        return [fork.mend(write, hold.store, common)]


def _is_forked(session: Session, mine: Greeting, theirs: Greeting) -> bool:
    told, own = theirs.vector.get(mine.origin), mine.vector.get(mine.origin, Reached(0, ""))
    if told is None:
        return False
    return told.n > own.n or differs(session, mine.origin, told)


def _is_shown(hold: Hold, mine: Greeting, told: Sequence[Told]) -> bool:
    """Whether one of the changes signed by this store is unknown here."""
    with hold.reading() as session:
        return any(telling.mark_of(session, mine.origin, one.n) != one.mark for one in told)


def _common(hold: Hold, name: str, mine: Greeting, theirs: Greeting, marks: Mapping[int, str]) -> int:
    """Find the last number with the same change on both sides, and so the same changes before it.

    Compacted changes cannot be compared, so the result may be too low: then some changes are reissued twice.
    """
    last = min(mine.vector.get(name, Reached(0, "")).n, theirs.vector[name].n)
    with hold.reading() as session:
        both = (n for n in range(last, 0, -1) if n in marks and marks[n] == telling.mark_of(session, name, n))
        return next(both, 0)


def _told(other: End, origin: str, vector: Mapping[str, Reached], key: bytes) -> list[Told]:
    """Fetch every change of one origin from another store, and nothing else."""
    known = {name: reached.n for name, reached in vector.items()} | {origin: 0}
    found: list[Told] = []
    after, more = 0, True
    while more:
        page = other.tell(after, known, PAGE)
        found += [_seen(change, key) for change in page.changes if change.origin == origin]
        if base := page.bases.get(origin):
            found.append(Told(base.n, base.mark, signed=False))
        after, more = page.upto, page.more
    return found


def _seen(change: Change, key: bytes) -> Told:
    about = (change.at, change.op, change.kind, change.record)
    return Told(change.n, mark(change.origin, change.n, *about), bool(key) and is_signed(key, change))


def _marks(told: Sequence[Told]) -> dict[int, str]:
    return {one.n: one.mark for one in told}
