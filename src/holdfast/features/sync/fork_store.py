"""Repair a store that was restored from a copy: reissue its later changes under a new replica id.

Other stores know different changes with the same numbers under the old replica id. So every change after the last
common number is renamed, in the journal and the field versions, before another store receives it. The changes made
elsewhere under the old replica id then arrive like those of any other store.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.kernel.clock import STATE, Stamp
from holdfast.kernel.errors import Conflict, StoreDamaged
from holdfast.kernel.journal import checkpoint as floors
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.journal import ABOUT, Entry
from holdfast.kernel.journal.kinds import KINDS, Kind
from holdfast.kernel.journal.replay import changes_of, replayed, since_folded, written
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import field_versions as cells
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.merge import Cell, join
from holdfast.kernel.storage.port import Session, Store


class Mended(NamedTuple):
    """The repair of a restored store, or of a store that had received its changes."""

    origin: str
    """The new replica id."""
    again: int
    """Number of renamed changes."""


def mend(write: Transaction, store: Store, common: int) -> Mended:
    """Begin a new incarnation and reissue every own change after the last common number under it."""
    session, head = write.session, journal.head_of(write.session)
    own = _behind(session, head.origin, common)
    if is_folded(session, own):
        raise Conflict(
            "This store was restored from a copy and compacted since, so its later changes can no longer be separated. "
            "Restore the copy again, or export what you need and import it into a new store."
        )
    owner = journal.owner_of(session, store)
    renewed = journal.renew(session, owner, head.node, head.incarnation + 1, adopt=False)

    def numbered(entry: Entry, delta: str | None) -> Entry:
        return entry._replace(origin=renewed.origin, n=entry.n - common, delta=delta)

    if own:
        last = _Renaming(write, head.origin, renewed.origin, own, numbered).done()
        journal.mend(session, renewed._replace(n=len(own), hash=last), owner.key)
        session.do("signer_since", origin=renewed.origin, since=own[0].seq)
    session.do("followed_clear")
    return Mended(renewed.origin, len(own))


def adopt(write: Transaction, store: Store, old: str, new: str, common: int) -> Mended:
    """Treat changes received from a copy as the ones its store reissues under a new replica id; free their numbers.

    Their signatures under the old replica id no longer apply, so they stay as record snapshots without a number.
    """
    session, head = write.session, journal.head_of(write.session)
    heard = _behind(session, old, common)

    def unnumbered(entry: Entry, delta: str | None) -> Entry:
        op = entry.op if entry.op == "purge" else "moved"
        return entry._replace(origin=STATE, n=entry.seq, op=op, delta=delta)

    if heard and not is_folded(session, heard):
        last = _Renaming(write, old, new, heard, unnumbered).done()
        journal.mend(session, head._replace(hash=last), journal.owner_of(session, store).key)
        session.do("fold_unrelay", origin=old, numbers=[entry.n for entry in heard])
        session.do("heard_put", origin=old, n=common)
        session.do("followed_clear")
    return Mended(new, len(heard))


def _behind(session: Session, origin: str, common: int) -> list[Entry]:
    return [Entry(*row) for row in session.rows("fork_own", origin=origin, after=common)]


def is_folded(session: Session, entries: list[Entry]) -> bool:
    floor = floors.floor_of(session)
    return bool(entries) and floor is not None and entries[0].seq <= floor.seq


class _Renaming:
    """Rename the changes of one origin after a number, in place in the journal."""

    def __init__(
        self, write: Transaction, old: str, new: str, entries: list[Entry], placed: Callable[[Entry, str | None], Entry]
    ) -> None:
        self._write, self._session = write, write.session
        self._old, self._new, self._entries, self._placed = old, new, entries, placed
        self._renamed: dict[int, Entry] = {}

    def done(self) -> bytes:
        """Rename all entries; return the hash of the last entry of the chain."""
        records = dict.fromkeys((entry.kind, entry.record) for entry in self._entries)
        for kind, record in records:
            self._rename(KINDS[kind], record)
        last = self._link_again()
        for kind, record in records:
            self._put_cells(KINDS[kind], record)
        return last

    def _rename(self, kind: Kind[Any], record: str) -> None:
        """Rename these changes of one record, in their order."""
        theirs = {entry.seq: entry for entry in self._entries if (entry.kind, entry.record) == (kind.name, record)}
        times = {entry.at for entry in theirs.values()}
        changes = changes_of(self._session, kind.name, record)
        made, above = since_folded(floors.folding_of(self._session, kind.name, record), kind, changes)
        for said in above:
            says = written(kind, said)
            if said.entry.seq in theirs:
                says = {name: self._cell(cell, made.get(name), times) for name, cell in says.items()}
                self._renamed[said.entry.seq] = self._given_again(said.entry, says)
            for name, cell in says.items():
                made[name] = join(made.get(name, Cell({}, {})), cell)

    def _given_again(self, entry: Entry, says: dict[str, Cell]) -> Entry:
        """Return the renamed entry. A creation is complete in its body and has no delta, unless it loses its number."""
        if (entry.body, entry.delta) == (None, None):
            return self._placed(entry, None)
        placed = self._placed(entry, cells.encode(says).decode())
        if entry.delta is None and placed.origin != STATE:
            placed = placed._replace(delta=None)
        return placed._replace(digest=journal.digest_of(placed.body, placed.delta))

    def _cell(self, cell: Cell, before: Cell | None, times: set[int]) -> Cell:
        """Rename the origin in a field version, as if its author had used the new one after the common number."""
        values = {
            Stamp(stamp.time, self._new) if stamp.origin == self._old and stamp.time in times else stamp: value
            for stamp, value in cell.values.items()
        }
        seen = {**cell.seen, self._new: cell.seen[self._old]}
        seen.pop(self._old)
        if before is not None and self._old in before.seen:
            seen[self._old] = before.seen[self._old]
        return Cell(values, seen)

    def _link_again(self) -> bytes:
        """Recompute the hash chain from the first renamed entry; raise if it was broken before."""
        first = self._entries[0].seq
        row, floor = self._session.row("journal_one", seq=first - 1), floors.floor_of(self._session)
        previous = before = Entry(*row).hash if row else floor.hash if floor else journal.GENESIS
        for there in [Entry(*row) for row in self._session.rows("fork_behind", first=first)]:
            if journal.link_of(before, there[:ABOUT], there.digest) != there.hash:
                raise StoreDamaged(f"Change {there.seq} was modified outside the journal. Run `holdfast verify`.")
            entry, before = self._renamed.get(there.seq, there), there.hash
            previous = journal.link_of(previous, entry[:ABOUT], entry.digest)
            self._session.do(
                "fork_rewrite",
                seq=entry.seq,
                origin=entry.origin,
                n=entry.n,
                op=entry.op,
                delta=entry.delta,
                digest=entry.digest,
                hash=previous,
            )
        return previous

    def _put_cells(self, kind: Kind[Any], record: str) -> None:
        """Store the field versions of the renamed changes; the values of the row stay."""
        changes = changes_of(self._session, kind.name, record)
        made, _ = replayed(self._session, kind, changes)
        row = self._write.get(kind, record)
        assert row is not None
        shows, base = cells.flatten(kind.shape, row), Stamp(changes[0].entry.at, changes[0].entry.origin)
        local = {"shown": _shown(self._session, record)} if isinstance(row, Memory) else {}
        self._write.put(kind, row, row, cells.pack(cells.Cells(base, made), shows), **local)


def _shown(session: Session, id: str) -> str | None:
    row = session.row("fork_shown", id=id)
    return row[0] if row else None
