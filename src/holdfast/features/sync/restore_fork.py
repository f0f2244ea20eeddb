"""Repair forked origins: two histories under one replica id, after a database file was copied.

Other stores know different changes with the same numbers under the old replica id. So every change after the last
common number is renamed, in the journal and the field versions, before another store receives it. The changes made
elsewhere under the old replica id then arrive like those of any other store.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.features.sync import read_changes
from holdfast.features.sync.apply_changes import Endpoint
from holdfast.features.sync.read_changes import Handshake, VectorEntry
from holdfast.features.sync.validate_changes import is_signed
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, Forbidden, StoreDamaged
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.journal import BODY_INDEX, Entry, get_compacted_record, get_compaction_point
from holdfast.kernel.journal.kinds import KINDS, Kind
from holdfast.kernel.journal.replay import decode_change, list_changes, replay, split_compacted
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import field_versions
from holdfast.kernel.records.change import Change, history_mark
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.merge import FieldState, join
from holdfast.kernel.storage.port import Session, Store
from holdfast.kernel.timestamps import RECORD_SNAPSHOT, Stamp

PAGE = 500


class RepairResult(NamedTuple):
    """The repair of a restored store, or of a store that had received its changes."""

    origin: str
    """The new replica id."""
    renamed_count: int
    """Number of renamed changes."""


class RemoteChange(NamedTuple):
    """A change of an origin, as another store has it."""

    n: int
    mark: str
    is_authentic: bool
    """Whether its signature is valid."""


def repair_own_fork(ctx: Context, other: Endpoint, *, is_trusted: bool) -> RepairResult:
    """Continue under a new replica id, since another store has more or different changes of the current one.

    An untrusted store must prove it with such a change, signed by this store's key.
    """
    theirs = other.read_handshake()
    with ctx.reading() as session:
        mine, key = read_changes.build_handshake(session, ctx.now()), journal.get_head(session).public_key
    changes = [one for one in _fetch_changes(other, mine.origin, theirs.vector, key) if is_trusted or one.is_authentic]
    if not (is_trusted or _is_proven(ctx, mine, changes)):
        raise Forbidden(
            f"{theirs.node} claims changes of this store that are unknown here, but cannot show any. Nothing was "
            "exchanged. If this store was restored from a copy, mark that peer admin and try again."
        )
    common = _find_common_number(ctx, mine.origin, mine, theirs, changes)
    with ctx.transaction() as write:
        return reissue_changes(write, ctx.store, common)


def follow_repair(ctx: Context, other: Endpoint, origin: str) -> RepairResult:
    """Follow the repair of another store: treat changes received from its copy as the reissued ones."""
    theirs = other.read_handshake()
    with ctx.reading() as session:
        mine = read_changes.build_handshake(session, ctx.now())
        key = next((key for author, key, _ in session.rows("replica_list") if author == origin), b"")
    signed = [one for one in _fetch_changes(other, origin, theirs.vector, key) if one.is_authentic]
    common = _find_common_number(ctx, origin, mine, theirs, signed)
    with ctx.transaction() as write:
        return unnumber_changes(write, ctx.store, origin, theirs.origin, common)


def _is_proven(ctx: Context, mine: Handshake, changes: Sequence[RemoteChange]) -> bool:
    """Whether one of the changes signed by this store is unknown here."""
    with ctx.reading() as session:
        return any(read_changes.find_mark(session, mine.origin, one.n) != one.mark for one in changes)


def _find_common_number(
    ctx: Context, name: str, mine: Handshake, theirs: Handshake, changes: Sequence[RemoteChange]
) -> int:
    """Find the last number with the same change on both sides, and so the same changes before it.

    Compacted changes cannot be compared, so the result may be too low: then some changes are reissued twice.
    """
    marks = {one.n: one.mark for one in changes}
    last = min(mine.vector.get(name, VectorEntry(0, "")).n, theirs.vector[name].n)
    with ctx.reading() as session:
        both = (n for n in range(last, 0, -1) if n in marks and marks[n] == read_changes.find_mark(session, name, n))
        return next(both, 0)


def _fetch_changes(other: Endpoint, origin: str, vector: Mapping[str, VectorEntry], key: bytes) -> list[RemoteChange]:
    """Fetch every change of one origin from another store, and nothing else."""
    known = {name: reached.n for name, reached in vector.items()} | {origin: 0}
    changes: list[RemoteChange] = []
    after, more = 0, True
    while more:
        page = other.read_changes(after, known, PAGE)
        changes += [_to_remote_change(change, key) for change in page.changes if change.origin == origin]
        if base := page.bases.get(origin):
            changes.append(RemoteChange(base.n, base.mark, is_authentic=False))
        after, more = page.upto, page.more
    return changes


def _to_remote_change(change: Change, key: bytes) -> RemoteChange:
    about = (change.at, change.op, change.kind, change.record)
    return RemoteChange(change.n, history_mark(change.origin, change.n, *about), bool(key) and is_signed(key, change))


def reissue_changes(write: Transaction, store: Store, common: int) -> RepairResult:
    """Begin a new incarnation and reissue every own change after the last common number under it."""
    session, head = write.session, journal.get_head(write.session)
    own = _list_own_after(session, head.origin, common)
    if is_compacted(session, own):
        raise Conflict(
            "This store was restored from a copy and compacted since, so its later changes can no longer be separated. "
            "Restore the copy again, or export what you need and import it into a new store."
        )
    owner = journal.get_or_create_owner(session, store)
    renewed = journal.start_incarnation(session, owner, head.node, head.incarnation + 1, adopt=False)

    def renumber(entry: Entry, delta: str | None) -> Entry:
        return entry._replace(origin=renewed.origin, n=entry.n - common, delta=delta)

    if own:
        last = _OriginRenamer(write, head.origin, renewed.origin, own, renumber).run()
        journal.repair_head(session, renewed._replace(n=len(own), hash=last), owner.key)
        session.do("signer_since", origin=renewed.origin, since=own[0].seq)
    session.do("sync_cursor_clear")
    return RepairResult(renewed.origin, len(own))


def unnumber_changes(write: Transaction, store: Store, old: str, new: str, common: int) -> RepairResult:
    """Treat changes received from a copy as the ones its store reissues under a new replica id; free their numbers.

    Their signatures under the old replica id no longer apply, so they stay as record snapshots without a number.
    """
    session, head = write.session, journal.get_head(write.session)
    received = _list_own_after(session, old, common)

    def remove_number(entry: Entry, delta: str | None) -> Entry:
        op = entry.op if entry.op == "purge" else "moved"
        return entry._replace(origin=RECORD_SNAPSHOT, n=entry.seq, op=op, delta=delta)

    if received and not is_compacted(session, received):
        last = _OriginRenamer(write, old, new, received, remove_number).run()
        journal.repair_head(session, head._replace(hash=last), journal.get_or_create_owner(session, store).key)
        session.do("compaction_drop_signatures", origin=old, numbers=[entry.n for entry in received])
        session.do("version_vector_put", origin=old, n=common)
        session.do("sync_cursor_clear")
    return RepairResult(new, len(received))


def _list_own_after(session: Session, origin: str, common: int) -> list[Entry]:
    return [Entry(*row) for row in session.rows("fork_own_changes", origin=origin, after=common)]


def is_compacted(session: Session, entries: list[Entry]) -> bool:
    floor = get_compaction_point(session)
    return bool(entries) and floor is not None and entries[0].seq <= floor.seq


class _OriginRenamer:
    """Rename the changes of one origin after a number, in place in the journal."""

    def __init__(
        self, write: Transaction, old: str, new: str, entries: list[Entry], placed: Callable[[Entry, str | None], Entry]
    ) -> None:
        self._write, self._session = write, write.session
        self._old, self._new, self._entries, self._place_entry = old, new, entries, placed
        self._renamed: dict[int, Entry] = {}

    def run(self) -> bytes:
        """Rename all entries; return the hash of the last entry of the chain."""
        records = dict.fromkeys((entry.kind, entry.record) for entry in self._entries)
        for kind, record in records:
            self._rename_record(KINDS[kind], record)
        last = self._relink_chain()
        for kind, record in records:
            self._put_field_versions(KINDS[kind], record)
        return last

    def _rename_record(self, kind: Kind[Any], record: str) -> None:
        """Rename these changes of one record, in their order."""
        theirs = {entry.seq: entry for entry in self._entries if (entry.kind, entry.record) == (kind.name, record)}
        times = {entry.at for entry in theirs.values()}
        changes = list_changes(self._session, kind.name, record)
        states, above = split_compacted(get_compacted_record(self._session, kind.name, record), kind, changes)
        for change in above:
            written = decode_change(kind, change)
            if change.entry.seq in theirs:
                written = {name: self._rename_cell(cell, states.get(name), times) for name, cell in written.items()}
                self._renamed[change.entry.seq] = self._reissue(change.entry, written)
            for name, cell in written.items():
                states[name] = join(states.get(name, FieldState({}, {})), cell)

    def _reissue(self, entry: Entry, says: dict[str, FieldState]) -> Entry:
        """Return the renamed entry. A creation is complete in its body and has no delta, unless it loses its number."""
        if (entry.body, entry.delta) == (None, None):
            return self._place_entry(entry, None)
        placed = self._place_entry(entry, field_versions.encode_states(says).decode())
        if entry.delta is None and placed.origin != RECORD_SNAPSHOT:
            placed = placed._replace(delta=None)
        return placed._replace(digest=journal.content_digest(placed.body, placed.delta))

    def _rename_cell(self, cell: FieldState, before: FieldState | None, times: set[int]) -> FieldState:
        """Rename the origin in a field version, as if its author had used the new one after the common number."""
        values = {
            Stamp(stamp.time, self._new) if stamp.origin == self._old and stamp.time in times else stamp: value
            for stamp, value in cell.values.items()
        }
        seen = {**cell.seen, self._new: cell.seen[self._old]}
        seen.pop(self._old)
        if before is not None and self._old in before.seen:
            seen[self._old] = before.seen[self._old]
        return FieldState(values, seen)

    def _relink_chain(self) -> bytes:
        """Recompute the hash chain from the first renamed entry; raise if it was broken before."""
        first = self._entries[0].seq
        row, floor = self._session.row("journal_one", seq=first - 1), get_compaction_point(self._session)
        previous = before = Entry(*row).hash if row else floor.hash if floor else journal.GENESIS
        for there in [Entry(*row) for row in self._session.rows("fork_entries_from", first=first)]:
            if journal.chain_hash(before, there[:BODY_INDEX], there.digest) != there.hash:
                raise StoreDamaged(f"Change {there.seq} was modified outside the journal. Run `holdfast admin verify`.")
            entry, before = self._renamed.get(there.seq, there), there.hash
            previous = journal.chain_hash(previous, entry[:BODY_INDEX], entry.digest)
            self._session.do(
                "fork_rewrite_entry",
                seq=entry.seq,
                origin=entry.origin,
                n=entry.n,
                op=entry.op,
                delta=entry.delta,
                digest=entry.digest,
                hash=previous,
            )
        return previous

    def _put_field_versions(self, kind: Kind[Any], record: str) -> None:
        """Store the field versions of the renamed changes; the values of the row stay."""
        changes = list_changes(self._session, kind.name, record)
        states, _ = replay(self._session, kind, changes)
        row = self._write.get(kind, record)
        assert row is not None
        shows, base = (
            field_versions.flatten(kind.merge_schema, row),
            Stamp(changes[0].entry.at, changes[0].entry.origin),
        )
        local = {"visible_as": _get_visible_as(self._session, record)} if isinstance(row, Memory) else {}
        self._write.put(kind, row, row, field_versions.pack(field_versions.FieldVersions(base, states), shows), **local)


def _get_visible_as(session: Session, id: str) -> str | None:
    row = session.row("fork_visible_as", id=id)
    return row[0] if row else None
