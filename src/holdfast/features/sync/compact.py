"""Compact history that every peer has, in bounded transactions."""

from contextlib import nullcontext
from typing import NamedTuple

from holdfast.features.admin.backup import must_reach_all_namespaces
from holdfast.features.sync import compact_journal
from holdfast.kernel.context import Context
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.dry_run import open_dry_run
from holdfast.kernel.journal.journal import CompactionPoint, get_compaction_point
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY


class Compaction(NamedTuple):
    """What was compacted, and what blocks further compaction."""

    dropped: int
    records: int
    before: compact_journal.JournalSize
    after: compact_journal.JournalSize
    floor: CompactionPoint | None
    held_back: int
    """Entries old enough to compact that a peer does not have yet."""
    slowest_peer: str | None


def compact(ctx: Context, older_than_days: int, *, dry_run: bool = False) -> Compaction:
    """Compact entries older than `older_than_days` that every enrolled peer has, in bounded transactions."""
    must_reach_all_namespaces(ctx)
    with open_dry_run(ctx) if dry_run else nullcontext(ctx) as there:
        return _compact_steps(there, ctx.now() - older_than_days * DAY)


def _compact_steps(ctx: Context, until: int) -> Compaction:
    with ctx.reading() as session:
        before, reach = (
            compact_journal.read_size(session),
            compact_journal.find_acknowledged(session, journal.get_head(session).seq),
        )
        first = _floor_seq(session)
    dropped, records = 0, set[tuple[str, str]]()
    while step := _compact_step(ctx, reach.seq, until):
        dropped, records = dropped + step.dropped, records | step.records
        ctx.progress(step.upto - first, reach.seq - first, "compacting")
    with ctx.reading() as session:
        floor = get_compaction_point(session)
        held_back = compact_journal.count_older(session, max(reach.seq, _floor_seq(session)), until)
        slowest = reach.slowest_peer if held_back else None
        return Compaction(dropped, len(records), before, compact_journal.read_size(session), floor, held_back, slowest)


def _compact_step(ctx: Context, upto: int, until: int) -> compact_journal.CompactStep | None:
    with ctx.transaction() as write:
        return compact_journal.compact_entries(write, upto, until)


def _floor_seq(session: Session) -> int:
    floor = get_compaction_point(session)
    return floor.seq if floor else 0
