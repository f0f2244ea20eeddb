"""Delete usage, task run and run records past their retention period. Local, not replicated."""

from typing import NamedTuple

from holdfast.features.usage import price
from holdfast.kernel.context import Context
from holdfast.kernel.timestamps import DAY

BATCH = 1000
"""Rows deleted per transaction."""
_PRUNE_STATEMENTS = {
    "usage": ("usage_old_drop",),
    "task_run": ("task_run_old_drop",),
    "run": ("run_old_phases", "run_old_drop"),
}


class PruneResult(NamedTuple):
    """How many records of each kind were deleted, or would be."""

    usage: int
    task_runs: int
    runs: int


def prune_records(ctx: Context, *, dry_run: bool = False) -> PruneResult:
    """Delete records past their retention. Usage of the current month always stays: budgets count it."""
    now, keep = ctx.now(), ctx.retention
    day = min(now // DAY - keep.usage, price.period_start("month", now))
    return PruneResult(
        usage=_prune(ctx, "usage", day, dry_run=dry_run) if keep.usage else 0,
        task_runs=_prune(ctx, "task_run", now - keep.task_runs * DAY, dry_run=dry_run) if keep.task_runs else 0,
        runs=_prune(ctx, "run", now - keep.runs * DAY, dry_run=dry_run) if keep.runs else 0,
    )


def _prune(ctx: Context, kind: str, before: int, *, dry_run: bool) -> int:
    """Delete records older than a day or timestamp in batches; return how many."""
    if dry_run:
        with ctx.reading() as session:
            return int(session.select(("old_count", f"{kind}_old", "old_count.end"), {"before": before})[0][0])
    gone = 0
    while True:
        with ctx.store.transaction(ctx.progress.begin_commit) as session:
            found = session.select((f"{kind}_old", f"{kind}_old.first"), {"before": before, "limit": BATCH})
            ids = [row[0] for row in found]
            for statement in _PRUNE_STATEMENTS[kind]:
                session.do(statement, ids=ids)
        gone += len(ids)
        ctx.progress(gone, gone, "pruning")
        if len(ids) < BATCH:
            return gone
