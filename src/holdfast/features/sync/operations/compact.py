"""Folding history that everybody has."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.sync import compact as folding
from holdfast.kernel.context import Hold, Progress
from holdfast.kernel.journal.checkpoint import RETENTION_DAYS
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import to_text


class Compact(Request, frozen=True):
    older_than: Annotated[
        int, Meta(ge=0, le=36_500, description="Days of which the history stays whole, however much the peers have.")
    ] = RETENTION_DAYS
    dry_run: Annotated[bool, Meta(description="Only say what it would do.")] = False


class Compacted(Struct, frozen=True, kw_only=True):
    folded: int
    """Entries of the journal that are gone; what came of them is kept."""
    records: int
    """Records whose history was folded into one state."""
    entries: int
    """Entries that are left."""
    bytes_before: int
    bytes_after: int
    """Characters of all that the journal says."""
    held_back: int
    """Entries that are old enough, and that some enrolled peer does not have yet, or some subscription."""
    waits_for: str | UnsetType = UNSET
    """The peer that has taken least, or a subscription."""
    floor: int
    """Up to which change history is folded, by every compaction so far."""
    since: str | UnsetType = UNSET
    """From when on history is whole."""
    dry_run: bool


@operation(
    Effect.DESTROY,
    "POST /api/v1/compact",
    family="other",
    admin=True,
    irreversible=True,
    surfaces=("library", "cli", "http"),
    human="holdfast.features.sync.render:render_compaction",
    examples=(Example({"dry_run": True}), Example({"older_than": -1}, error="VALIDATION_FAILED")),
)
def compact(hold: Hold, request: Compact, progress: Progress) -> Compacted:
    """Fold old history that every enrolled peer has: of each record only what came of it is kept.

    Nothing that is remembered changes, and verify still proves what is left. Undo, history and known_at reach back to
    the floor. It runs in short transactions: others go on writing, and one that is interrupted goes on where it was.
    """
    done = folding.compact(hold, request.older_than, dry_run=request.dry_run)
    return Compacted(
        folded=done.dropped,
        records=done.records,
        entries=done.after.entries,
        bytes_before=done.before.said,
        bytes_after=done.after.said,
        held_back=done.held_back,
        waits_for=UNSET if done.slowest is None else done.slowest,
        floor=done.floor.seq if done.floor else 0,
        since=to_text(done.floor.kept_at) if done.floor else UNSET,
        dry_run=request.dry_run,
    )
