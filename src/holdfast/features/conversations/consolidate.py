"""Consolidate conversations and outcomes when enough is new; one process at a time; archives before deleting."""

from typing import Literal

from msgspec import Struct

from holdfast.features.conversations import service as conversations
from holdfast.features.learning.lessons import prune_outcomes
from holdfast.features.people import interactions
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict
from holdfast.kernel.records.fields import computed
from holdfast.kernel.storage.leases import JobLease
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY, SECOND

LEASE = JobLease("consolidation", 900 * SECOND, "Another process holds the lease of the consolidation until {until}.")
BATCH = 100
"""Conversations closed and pruned at a time."""

Gate = Literal["lease", "time", "conversations"]


class ConversationConsolidateResult(Struct, frozen=True, kw_only=True):
    """What was done, or the gate that prevented the run."""

    gate: Gate | None = None
    """Why nothing was done: another process runs it, it is too early, or too little is new."""
    closed: int = 0
    pruned: int = 0
    outcomes_archived: int = 0
    outcomes_dropped: int = 0
    interactions_erased: int = 0

    @computed
    def ran(self) -> bool:
        return self.gate is None


def consolidate(
    ctx: Context,
    *,
    min_hours: float,
    min_conversations: int,
    prune_days: int,
    keep_outcomes: int,
    interaction_days: int | None,
    force: bool,
) -> ConversationConsolidateResult:
    """Close, summarise and prune conversations and drop old outcomes, if enough is new.

    Safe to repeat: a crashed run is not recorded as done, and the next one does the rest.
    """
    owner, began = ctx.new_id(), ctx.now()
    try:
        with LEASE.hold(ctx, owner):
            with ctx.reading() as session:
                gate = None if force else _find_closed_gate(session, min_hours, min_conversations, began)
            if gate is not None:
                return ConversationConsolidateResult(gate=gate)
            result = _consolidate_batches(ctx, owner, prune_days, keep_outcomes, interaction_days)
            with ctx.store.transaction(ctx.progress.begin_commit) as session:
                session.do("job_watermark_put", name=LEASE.name, at=began)
            return result
    except Conflict as busy:
        if not busy.retryable:
            raise
        return ConversationConsolidateResult(gate="lease")


def _find_closed_gate(session: Session, min_hours: float, min_conversations: int, now: int) -> Gate | None:
    """Return the gate that prevents a run: too early, or too little is new. A first run is never too early."""
    row = session.row("job_watermark_get", name=LEASE.name)
    if row is not None and now - row[0] < min_hours * 3600 * SECOND:
        return "time"
    started = session.row("conversations_since", since=row[0] if row is not None else -1)
    return "conversations" if started is None or started[0] < min_conversations else None


def _consolidate_batches(
    ctx: Context, owner: str, prune_days: int, keep_outcomes: int, interaction_days: int | None
) -> ConversationConsolidateResult:
    closed = pruned = 0
    while True:
        LEASE.renew(ctx, owner)
        reaped = conversations.close_idle(ctx, BATCH, prune_days)
        closed, pruned = closed + len(reaped.closed), pruned + len(reaped.pruned)
        if max(len(reaped.closed), len(reaped.pruned)) < BATCH:
            break
    dropped, archived = prune_outcomes(ctx, ctx.now() - prune_days * DAY, keep=keep_outcomes)
    return ConversationConsolidateResult(
        closed=closed,
        pruned=pruned,
        outcomes_archived=archived,
        outcomes_dropped=dropped,
        interactions_erased=0 if interaction_days is None else interactions.erase_older(ctx, interaction_days),
    )
