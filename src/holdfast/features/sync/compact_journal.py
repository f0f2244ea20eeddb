"""Compact the journal: keep the final state of each record and drop the entries that led to it."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from msgspec import Struct

from holdfast.features.sync import read_changes, record_snapshots, status
from holdfast.features.sync.peers.store import list_peers
from holdfast.features.webhooks.service import slowest_position
from holdfast.kernel.context import Context
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.dry_run import open_dry_run
from holdfast.kernel.journal.journal import (
    BODY_INDEX,
    EMPTY_SUM,
    GENESIS,
    Baseline,
    CompactedRecord,
    CompactionPoint,
    Entry,
    digest_field_versions,
    encode_compacted_record,
    encode_entry,
    get_compacted_record,
    get_compaction_point,
    list_baselines,
    put_baseline,
    update_sum,
)
from holdfast.kernel.journal.kinds import KINDS, Kind
from holdfast.kernel.journal.replay import ReplayChange, list_changes, pack_compacted, replay
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.merge import FieldState
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY, RECORD_SNAPSHOT, Time

WINDOW_ENTRIES = 500
"""Entries compacted in one transaction; limits how long other writers wait."""


class AcknowledgedUpto(NamedTuple):
    """The sequence number up to which every enrolled peer has the journal, and the slowest peer."""

    seq: int
    slowest_peer: str | None


class CompactStep(NamedTuple):
    """What one transaction compacted."""

    upto: int
    dropped: int
    records: frozenset[tuple[str, str]]


def find_acknowledged(session: Session, head: int) -> AcknowledgedUpto:
    """Find how much of the journal every enrolled peer has and every subscription has delivered."""
    peer_info = status.list_peer_info(session)
    waits = [(peer_info[one.node].followed if one.node in peer_info else 0, one.name) for one in list_peers(session)]
    if (place := slowest_position(session)) is not None:
        waits.append((place, "a subscription"))
    least = min(waits, default=(head, None))
    return AcknowledgedUpto(*least) if least[0] < head else AcknowledgedUpto(head, None)


def compact_entries(write: Transaction, upto: int, before: int) -> CompactStep | None:
    """Compact the next whole transactions up to `upto` that were written before `before`; None if there are none."""
    session = write.session
    floor = get_compaction_point(session) or _empty_point(write)
    window = _read_window(session, floor.seq, upto, before)
    if not window:
        return None
    return _WindowCompactor(write, floor, window).run()


def _empty_point(write: Transaction) -> CompactionPoint:
    node = write.origin.partition(".")[0]
    return CompactionPoint(node, 0, GENESIS, 0, 0, 0, EMPTY_SUM, b"")


def _read_window(session: Session, after: int, upto: int, before: int) -> list[Entry]:
    """Read the next whole transactions; one that does not end within the window is left out."""
    limit = WINDOW_ENTRIES
    while True:
        rows = session.rows("compaction_window", after=after, upto=upto, before=before, limit=limit)
        window = [Entry(*row) for row in rows]
        behind = session.row("journal_one", seq=window[-1].seq + 1) if window else None
        if behind is not None and Entry(*behind).batch == window[-1].batch:
            cut = window[-1].batch
            window = [entry for entry in window if entry.batch != cut]
        if window or len(rows) < limit:
            return window
        limit *= 2


class _WindowCompactor:
    """Compact a window: each record keeps its newest entry there and its field versions as of that entry."""

    def __init__(self, write: Transaction, floor: CompactionPoint, window: Sequence[Entry]) -> None:
        self._write, self._session = write, write.session
        self._floor, self._window, self._upto = floor, window, window[-1].seq
        self._more = [_entry_item(entry) for entry in window]
        self._less: list[bytes] = []
        self._dropped = 0
        self._records: set[tuple[str, str]] = set()

    def run(self) -> CompactStep:
        reached = self._advance_baselines()
        for kind, record in dict.fromkeys((entry.kind, entry.record) for entry in self._window):
            self._compact_record(kind, record, reached)
        last = self._window[-1]
        self._write.put_compaction_point(
            self._floor._replace(
                node=self._write.origin.partition(".")[0],
                seq=last.seq,
                hash=last.hash,
                recorded_at=last.recorded_at,
                compacted_at=self._write.now,
                removed_entries=self._floor.removed_entries + self._dropped,
                remaining_sum=update_sum(self._floor.remaining_sum, self._more, self._less),
            )
        )
        return CompactStep(last.seq, self._dropped, frozenset(self._records))

    def _advance_baselines(self) -> dict[str, int]:
        """Advance and store the baseline of each origin up to the new compaction point."""
        known: dict[str, int] = {}
        for base in list_baselines(self._session):
            if base.seq <= self._upto:
                known[base.origin] = max(base.n, known.get(base.origin, 0))
        for origin in {entry.origin for entry in self._window} - {RECORD_SNAPSHOT}:
            row = self._session.row(
                "baseline_contiguous_upto", origin=origin, after=known.get(origin, 0), upto=self._upto
            )
            assert row is not None
            if row[0] > known.get(origin, 0):
                known[origin] = row[0]
                put_baseline(self._session, Baseline(origin, row[0], self._find_mark(origin, row[0]), self._upto))
        return known

    def _find_mark(self, origin: str, n: int) -> str:
        return read_changes.find_mark(self._session, origin, n) or ""

    def _compact_record(self, kind: str, record: str, numbers: dict[str, int]) -> None:
        """Compact one record if all its changes are here and none is above a gap."""
        below = [change for change in list_changes(self._session, kind, record) if change.entry.seq <= self._upto]
        if len(below) < 2 or kind not in KINDS or not all(_is_contiguous(change.entry, numbers) for change in below):
            return
        states = self._replay_fields(kind, record, below)
        if states is None or below[-1].entry.body is None:
            return
        self._put_final_state(KINDS[kind], below[-1].entry, states)
        self._drop_entries(below)
        self._records.add((kind, record))

    def _replay_fields(self, kind: str, record: str, below: Sequence[ReplayChange]) -> dict[str, FieldState] | None:
        """Replay the field versions at the compaction point; None if a purge erased its changes."""
        states, whole = replay(self._session, KINDS[kind], below)
        if not whole or any((change.entry.body, change.entry.delta) == (None, None) for change in below):
            return self._current_fields(kind, record, below[-1].entry.seq)
        return states

    def _current_fields(self, kind: str, record: str, newest: int) -> dict[str, FieldState] | None:
        """Return the current field versions of a purged record, if it has no change after the compaction point."""
        last = self._session.row("journal_last", record=record, kind=kind, before=1 << 62)
        now = record_snapshots.read_fields(self._session, kind, record)
        return now if last is not None and last[0] == newest else None

    def _put_final_state(self, kind: Kind[Any], last_entry: Entry, states: dict[str, FieldState]) -> None:
        if before := get_compacted_record(self._session, kind.name, last_entry.record):
            self._less.append(encode_compacted_record(before))
        packed = pack_compacted(kind, last_entry, states)
        after = CompactedRecord(last_entry.record, kind.name, last_entry.seq, packed, digest_field_versions(packed))
        self._session.do("compacted_record_put", **after._asdict())
        self._more.append(encode_compacted_record(after))

    def _drop_entries(self, below: Sequence[ReplayChange]) -> None:
        """Delete all entries of a record but the newest, and their stored signatures."""
        newest = below[-1].entry
        dropped = [change.entry for change in below[:-1]]
        self._less += [_entry_item(entry) for entry in dropped]
        self._session.do("compaction_drop_entries", record=newest.record, kind=newest.kind, newest=newest.seq)
        numbers: dict[str, list[int]] = {}
        for entry in (*dropped, newest):
            numbers.setdefault(entry.origin, []).append(entry.n)
        for origin, many in numbers.items():
            self._session.do("compaction_drop_signatures", origin=origin, numbers=many)
        self._dropped += len(dropped)


def _entry_item(entry: Entry) -> bytes:
    return encode_entry(entry[:BODY_INDEX], entry.digest, entry.hash)


def _is_contiguous(entry: Entry, numbers: dict[str, int]) -> bool:
    return entry.origin == RECORD_SNAPSHOT or entry.n <= numbers.get(entry.origin, 0)


class JournalSize(NamedTuple):
    """Size of the journal: entries, and characters of their text and of compacted records."""

    entries: int
    chars: int


def read_size(session: Session) -> JournalSize:
    row = session.row("journal_size")
    assert row is not None
    return JournalSize(*map(int, row))


def count_older(session: Session, after: int, before: int) -> int:
    """Count the entries after `after` that were written before `before`."""
    row = session.row("compaction_count_older", after=after, before=before)
    assert row is not None
    return int(row[0])


class CompactResult(Struct, frozen=True, kw_only=True):
    folded: int
    """Journal entries removed; the final state of each record is kept."""
    records: int
    """Records whose history was compacted to one state."""
    entries: int
    """Remaining entries."""
    bytes_before: int
    bytes_after: int
    """Size of the journal text, in characters."""
    held_back: int
    """Entries old enough to compact that an enrolled peer or a subscription does not have yet."""
    waits_for: str | None = None
    """The peer that is furthest behind, or a subscription."""
    floor: int
    """The compaction point: history up to this change is compacted."""
    since: Time | None = None
    """When full history begins."""
    dry_run: bool


def compact(ctx: Context, older_than_days: int, *, dry_run: bool = False) -> CompactResult:
    """Compact entries older than `older_than_days` that every enrolled peer has, in bounded transactions."""
    ctx.caller.require_all_namespaces()
    with open_dry_run(ctx) if dry_run else nullcontext(ctx) as there:
        return _compact_steps(there, ctx.now() - older_than_days * DAY, dry_run=dry_run)


def _compact_steps(ctx: Context, until: int, *, dry_run: bool) -> CompactResult:
    with ctx.reading() as session:
        before, reach = (read_size(session), find_acknowledged(session, journal.get_head(session).seq))
        first = _floor_seq(session)
    dropped, records = 0, set[tuple[str, str]]()
    while step := _compact_step(ctx, reach.seq, until):
        dropped, records = dropped + step.dropped, records | step.records
        ctx.progress(step.upto - first, reach.seq - first, "compacting")
    with ctx.reading() as session:
        floor = get_compaction_point(session)
        held_back = count_older(session, max(reach.seq, _floor_seq(session)), until)
        after = read_size(session)
    return CompactResult(
        folded=dropped,
        records=len(records),
        entries=after.entries,
        bytes_before=before.chars,
        bytes_after=after.chars,
        held_back=held_back,
        waits_for=reach.slowest_peer if held_back else None,
        floor=floor.seq if floor else 0,
        since=floor.recorded_at if floor else None,
        dry_run=dry_run,
    )


def _compact_step(ctx: Context, upto: int, until: int) -> CompactStep | None:
    with ctx.transaction() as write:
        return compact_entries(write, upto, until)


def _floor_seq(session: Session) -> int:
    floor = get_compaction_point(session)
    return floor.seq if floor else 0
