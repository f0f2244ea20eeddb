"""Compact history that every peer has, in bounded transactions."""

from contextlib import nullcontext
from typing import NamedTuple

from holdfast.features.admin.backup import must_reach_all
from holdfast.features.sync import compact_journal as folding
from holdfast.kernel.context import Hold
from holdfast.kernel.journal import checkpoint as floors
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.dry_run import rehearsed
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY


class Compacted(NamedTuple):
    """What was compacted, and what blocks further compaction."""

    dropped: int
    records: int
    before: folding.Size
    after: folding.Size
    floor: floors.Floor | None
    held_back: int
    """Entries old enough to compact that a peer does not have yet."""
    slowest: str | None


def compact(hold: Hold, older_than_days: int, *, dry_run: bool = False) -> Compacted:
    """Compact entries older than `older_than_days` that every enrolled peer has, in bounded transactions."""
    must_reach_all(hold)
    with rehearsed(hold) if dry_run else nullcontext(hold) as there:
        return _fold(there, hold.now() - older_than_days * DAY)


def _fold(hold: Hold, until: int) -> Compacted:
    with hold.reading() as session:
        before, reach = folding.size(session), folding.reach(session, journal.head_of(session).seq)
        first = _floor_seq(session)
    dropped, records = 0, set[tuple[str, str]]()
    while step := _step(hold, reach.seq, until):
        dropped, records = dropped + step.dropped, records | step.records
        hold.progress(step.upto - first, reach.seq - first, "compacting")
    with hold.reading() as session:
        floor = floors.floor_of(session)
        held_back = folding.older(session, max(reach.seq, _floor_seq(session)), until)
        slowest = reach.slowest if held_back else None
        return Compacted(dropped, len(records), before, folding.size(session), floor, held_back, slowest)


def _step(hold: Hold, upto: int, until: int) -> folding.Step | None:
    with hold.writing() as write:
        return folding.fold(write, upto, until)


def _floor_seq(session: Session) -> int:
    floor = floors.floor_of(session)
    return floor.seq if floor else 0
