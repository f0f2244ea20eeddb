"""Delete rows of local tables past their retention period."""

from typing import Any

from holdfast.kernel.context import Context
from holdfast.kernel.storage.local_table import LocalTable, list_tables

BATCH = 1000
"""Rows deleted per transaction."""


def prune_records(ctx: Context, *, dry_run: bool = False) -> dict[str, int]:
    """Delete rows past their retention, batch by batch; return how many of each table, or how many would be."""
    return {table.name: _prune(ctx, table, dry_run=dry_run) for table in list_tables() if table.retention is not None}


def _prune(ctx: Context, table: LocalTable[Any], *, dry_run: bool) -> int:
    before = table.oldest_kept(ctx.now(), ctx.retention)
    if before is None:
        return 0
    if dry_run:
        with ctx.reading() as session:
            return table.count_expired(session, before)
    deleted = 0
    while True:
        with ctx.store.transaction(ctx.progress.begin_commit) as session:
            batch = table.delete_expired(session, before, BATCH)
        deleted += batch
        ctx.progress(deleted, deleted, "pruning")
        if batch < BATCH:
            return deleted
