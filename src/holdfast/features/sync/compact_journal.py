"""Compact the journal: keep the final state of each record and drop the entries that led to it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.features.sync import read_changes as exchange
from holdfast.features.sync import record_snapshots as states
from holdfast.features.sync import status_store as status
from holdfast.features.sync.peers.store import enrolled
from holdfast.features.webhooks import store as subscriptions
from holdfast.kernel.clock import STATE
from holdfast.kernel.journal import checkpoint as floors
from holdfast.kernel.journal.checkpoint import Base, Floor
from holdfast.kernel.journal.journal import ABOUT, GENESIS, Entry
from holdfast.kernel.journal.kinds import KINDS, Kind
from holdfast.kernel.journal.replay import Said, changes_of, packed, replayed
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.merge import Cell
from holdfast.kernel.storage.port import Session

WINDOW = 500
"""Entries compacted in one transaction; limits how long other writers wait."""


class Reach(NamedTuple):
    """The sequence number up to which every enrolled peer has the journal, and the slowest peer."""

    seq: int
    slowest: str | None


class Step(NamedTuple):
    """What one transaction compacted."""

    upto: int
    dropped: int
    records: frozenset[tuple[str, str]]


def reach(session: Session, head: int) -> Reach:
    """Find how much of the journal every enrolled peer has and every subscription has delivered."""
    heard = status.seen(session)
    waits = [(heard[one.node].followed if one.node in heard else 0, one.name) for one in enrolled(session)]
    if (place := subscriptions.behind(session)) is not None:
        waits.append((place, "a subscription"))
    least = min(waits, default=(head, None))
    return Reach(*least) if least[0] < head else Reach(head, None)


def fold(write: Transaction, upto: int, before: int) -> Step | None:
    """Compact the next whole transactions up to `upto` that were written before `before`; None if there are none."""
    session = write.session
    floor = floors.floor_of(session) or _none(write)
    window = _window(session, floor.seq, upto, before)
    if not window:
        return None
    return _Fold(write, floor, window).done()


def _none(write: Transaction) -> Floor:
    node = write.origin.partition(".")[0]
    return Floor(node, 0, GENESIS, 0, 0, 0, floors.NOTHING, b"")


def _window(session: Session, after: int, upto: int, before: int) -> list[Entry]:
    """Read the next whole transactions; one that does not end within the window is left out."""
    limit = WINDOW
    while True:
        rows = session.rows("fold_window", after=after, upto=upto, before=before, limit=limit)
        window = [Entry(*row) for row in rows]
        behind = session.row("journal_one", seq=window[-1].seq + 1) if window else None
        if behind is not None and Entry(*behind).batch == window[-1].batch:
            cut = window[-1].batch
            window = [entry for entry in window if entry.batch != cut]
        if window or len(rows) < limit:
            return window
        limit *= 2


class _Fold:
    """Compact a window: each record keeps its newest entry there and its field versions as of that entry."""

    def __init__(self, write: Transaction, floor: Floor, window: Sequence[Entry]) -> None:
        self._write, self._session = write, write.session
        self._floor, self._window, self._upto = floor, window, window[-1].seq
        self._more = [_item(entry) for entry in window]
        self._less: list[bytes] = []
        self._dropped = 0
        self._records: set[tuple[str, str]] = set()

    def done(self) -> Step:
        reached = self._gapless()
        for kind, record in dict.fromkeys((entry.kind, entry.record) for entry in self._window):
            self._fold(kind, record, reached)
        last = self._window[-1]
        self._write.put_floor(
            self._floor._replace(
                node=self._write.origin.partition(".")[0],
                seq=last.seq,
                hash=last.hash,
                kept_at=last.kept_at,
                folded_at=self._write.now,
                dropped=self._floor.dropped + self._dropped,
                kept=floors.summed(self._floor.kept, self._more, self._less),
            )
        )
        return Step(last.seq, self._dropped, frozenset(self._records))

    def _gapless(self) -> dict[str, int]:
        """Advance and store the baseline of each origin up to the new compaction point."""
        known: dict[str, int] = {}
        for base in floors.bases(self._session):
            if base.seq <= self._upto:
                known[base.origin] = max(base.n, known.get(base.origin, 0))
        for origin in {entry.origin for entry in self._window} - {STATE}:
            row = self._session.row("base_gapless", origin=origin, after=known.get(origin, 0), upto=self._upto)
            assert row is not None
            if row[0] > known.get(origin, 0):
                known[origin] = row[0]
                floors.note(self._session, Base(origin, row[0], self._mark(origin, row[0]), self._upto))
        return known

    def _mark(self, origin: str, n: int) -> str:
        return exchange.mark_of(self._session, origin, n) or ""

    def _fold(self, kind: str, record: str, reached: dict[str, int]) -> None:
        """Compact one record if all its changes are here and none is above a gap."""
        below = [said for said in changes_of(self._session, kind, record) if said.entry.seq <= self._upto]
        if len(below) < 2 or kind not in KINDS or not all(_is_settled(said.entry, reached) for said in below):
            return
        made = self._cells(kind, record, below)
        if made is None or below[-1].entry.body is None:
            return
        self._keep(KINDS[kind], below[-1].entry, made)
        self._drop(below)
        self._records.add((kind, record))

    def _cells(self, kind: str, record: str, below: Sequence[Said]) -> dict[str, Cell] | None:
        """Replay the field versions at the compaction point; None if a purge erased its changes."""
        made, whole = replayed(self._session, KINDS[kind], below)
        if not whole or any((said.entry.body, said.entry.delta) == (None, None) for said in below):
            return self._cells_now(kind, record, below[-1].entry.seq)
        return made

    def _cells_now(self, kind: str, record: str, newest: int) -> dict[str, Cell] | None:
        """Return the current field versions of a purged record, if it has no change after the compaction point."""
        last = self._session.row("journal_last", record=record, kind=kind, before=1 << 62)
        now = states.cells_of(self._session, kind, record)
        return now if last is not None and last[0] == newest else None

    def _keep(self, kind: Kind[Any], stays: Entry, made: dict[str, Cell]) -> None:
        if before := floors.folding_of(self._session, kind.name, stays.record):
            self._less.append(floors.folded_item(before))
        said = packed(kind, stays, made)
        after = floors.Folding(stays.record, kind.name, stays.seq, said, floors.digest_of(said))
        self._session.do("folded_put", **after._asdict())
        self._more.append(floors.folded_item(after))

    def _drop(self, below: Sequence[Said]) -> None:
        """Delete all entries of a record but the newest, and their stored signatures."""
        newest = below[-1].entry
        gone = [said.entry for said in below[:-1]]
        self._less += [_item(entry) for entry in gone]
        self._session.do("fold_drop", record=newest.record, kind=newest.kind, newest=newest.seq)
        numbers: dict[str, list[int]] = {}
        for entry in (*gone, newest):
            numbers.setdefault(entry.origin, []).append(entry.n)
        for origin, many in numbers.items():
            self._session.do("fold_unrelay", origin=origin, numbers=many)
        self._dropped += len(gone)


def _item(entry: Entry) -> bytes:
    return floors.entry_item(entry[:ABOUT], entry.digest, entry.hash)


def _is_settled(entry: Entry, reached: dict[str, int]) -> bool:
    return entry.origin == STATE or entry.n <= reached.get(entry.origin, 0)


class Size(NamedTuple):
    """Size of the journal: entries, and characters of their text and of compacted records."""

    entries: int
    said: int


def size(session: Session) -> Size:
    row = session.row("journal_size")
    assert row is not None
    return Size(*map(int, row))


def older(session: Session, after: int, before: int) -> int:
    """Count the entries after `after` that were written before `before`."""
    row = session.row("fold_older", after=after, before=before)
    assert row is not None
    return int(row[0])
