"""Compact history that every peer has."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.sync import compact_journal as compaction_service
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.journal.journal import DEFAULT_RETENTION_DAYS
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import TimeText, format_timestamp


class Compact(Request, frozen=True):
    older_than: Annotated[
        int, Meta(ge=0, le=36_500, description="Days of full history to keep, even if every peer has them.")
    ] = DEFAULT_RETENTION_DAYS
    dry_run: Annotated[bool, Meta(description="Report what would change; change nothing.")] = False


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
    waits_for: str | UnsetType = UNSET
    """The peer that is furthest behind, or a subscription."""
    floor: int
    """The compaction point: history up to this change is compacted."""
    since: TimeText | UnsetType = UNSET
    """When full history begins."""
    dry_run: bool


@operation(
    Effect.DESTROY,
    "POST /api/v1/compact",
    cli=("admin", "compact"),
    aliases=("compact",),
    admin=True,
    irreversible=True,
    surfaces=("library", "cli", "http"),
    human="holdfast.features.sync.render:render_compaction",
    examples=(
        Example({"dry_run": True}),
        Example({"older_than": -1}, error="VALIDATION_FAILED"),
        Example({"dry_run": True}, prepared=True),
        Example({"older_than": 90}, prepared=True),
    ),
)
def compact(ctx: Context, request: Compact, progress: Progress) -> CompactResult:
    """Compact old history to final states, once every enrolled peer has it.

    No memory changes, and `verify` still proves the rest. Undo, history and known_at reach back to the compaction
    point. Runs in short transactions, so others can write; if interrupted, run it again to continue.
    """
    done = compaction_service.compact(ctx, request.older_than, dry_run=request.dry_run)
    return CompactResult(
        folded=done.dropped,
        records=done.records,
        entries=done.after.entries,
        bytes_before=done.before.chars,
        bytes_after=done.after.chars,
        held_back=done.held_back,
        waits_for=UNSET if done.slowest_peer is None else done.slowest_peer,
        floor=done.floor.seq if done.floor else 0,
        since=format_timestamp(done.floor.recorded_at) if done.floor else UNSET,
        dry_run=request.dry_run,
    )
