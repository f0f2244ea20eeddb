"""The ai-memory sync protocol as a view of this store, for peers that speak only it."""

from collections import Counter
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.integrations.ai_memory import push as peer_push
from holdfast.integrations.ai_memory.changes import read_changes
from holdfast.integrations.ai_memory.push import ItemResult
from holdfast.kernel.context import Context
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset
from holdfast.kernel.registry.stages import StageEffects
from holdfast.kernel.timestamps import TIME, TimeText


class SyncPush(Request, frozen=True):
    batch: Annotated[
        dict[str, Any],
        Meta(
            description="sender_agent_id and lists of up to 1000: memories, deletions, archives, restores, links, "
            "namespace_meta, namespace_meta_clears; dry_run."
        ),
    ]


class PushItemResult(Struct, frozen=True, kw_only=True):
    """The outcome of one item."""

    list: str
    index: int
    outcome: Literal["applied", "noop", "conflict", "rejected"]
    id: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    code: str | UnsetType = UNSET


class SyncPushResult(Struct, frozen=True, kw_only=True):
    """Counts, and an outcome for each item."""

    applied: int
    deleted: int
    archived: int
    restored: int
    links_applied: int
    pendings_applied: int
    pending_decisions_applied: int
    namespace_meta_applied: int
    namespace_meta_cleared: int
    noop: int
    skipped: int
    """Rejected items; the outcomes have the reasons."""
    conflicts: int
    """Not applied, because the state here is later."""
    quota_refused: int
    dry_run: bool
    receiver_agent_id: str
    receiver_clock: dict[str, Any]
    ids: list[str]
    """Memories of the batch that are stored as sent."""
    outcomes: list[PushItemResult]
    ignored: list[str]
    """Unknown fields of the batch."""


def _push_parts(ctx: Context, request: SyncPush) -> StageEffects:
    return peer_push.parts_of_push(ctx, peer_push.parse_push(request.batch))


@operation(
    Effect.WRITE,
    "POST /api/v1/sync/push",
    stages=("store", "delete", "link"),
    parts=_push_parts,
    surfaces=("library", "http"),
    whole="batch",
    examples=(
        Example(
            {
                "batch": {
                    "sender_agent_id": "ai:desk@home",
                    "memories": [
                        {"id": "p-1", "title": "From a peer", "content": "It was pushed.", "tier": "long"},
                        {"id": "p-2", "title": "Empty", "content": " "},
                    ],
                    "deletions": ["p-9"],
                }
            }
        ),
        Example({"batch": {"memories": []}}, error="VALIDATION_FAILED"),
        Example({"batch": {"sender_agent_id": "ai:desk@home", "memories": "none"}}, error="VALIDATION_FAILED"),
    ),
)
def sync_push(ctx: Context, request: SyncPush) -> SyncPushResult:
    """Apply a batch from an ai-memory peer in one transaction; each item has an outcome."""
    push = peer_push.parse_push(request.batch)
    items = peer_push.apply_push(ctx, push)
    done = Counter((one.array, one.outcome) for one in items)
    outcomes = Counter(one.outcome for one in items)
    return SyncPushResult(
        applied=done["memories", "applied"],
        deleted=done["deletions", "applied"],
        archived=done["archives", "applied"],
        restored=done["restores", "applied"],
        links_applied=done["links", "applied"],
        pendings_applied=0,
        pending_decisions_applied=0,
        namespace_meta_applied=done["namespace_meta", "applied"],
        namespace_meta_cleared=done["namespace_meta_clears", "applied"],
        noop=outcomes["noop"],
        skipped=outcomes["rejected"],
        conflicts=outcomes["conflict"],
        quota_refused=0,
        dry_run=push.dry_run,
        receiver_agent_id=ctx.caller.agent,
        receiver_clock={"entries": {}},
        ids=[one.id for one in items if one.array == "memories" and one.id and one.outcome in ("applied", "noop")],
        outcomes=[_item_result(one) for one in items],
        ignored=sorted(request.batch.keys() - set(push.__struct_fields__)),
    )


def _item_result(one: "ItemResult") -> PushItemResult:
    return PushItemResult(
        list=one.array,
        index=one.place,
        outcome=one.outcome,
        id=value_or_unset(one.id),
        reason=value_or_unset(one.reason),
        code=value_or_unset(one.code),
    )


class SyncSince(Request, frozen=True):
    since: (
        Annotated[str, Meta(min_length=4, max_length=64, description="updated_at of the last row received."), TIME]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Most memories to return.")] = 500
    peer: Annotated[str, Meta(min_length=1, max_length=128, description="Name of the calling peer.")] | None = None


class SyncSinceResult(Struct, frozen=True, kw_only=True):
    """Changes in the order in which they arrived here."""

    count: int
    limit: int
    memories: list[dict[str, Any]]
    """Each has its journal position as the digits after the microseconds of updated_at."""
    deletions: list[dict[str, Any]]
    archives: list[dict[str, Any]]
    excluded_for_scope: int
    """Always 0: memories the caller may not see are not read, so not counted."""
    excluded_for_scope_private: int
    scope_status: str
    has_more: bool
    updated_since: str | UnsetType = UNSET
    earliest_updated_at: TimeText | UnsetType = UNSET
    latest_updated_at: TimeText | UnsetType = UNSET
    next_cursor: str | UnsetType = UNSET
    """Where to continue: after everything read for this answer."""


@operation(
    Effect.READ,
    "GET /api/v1/sync/since",
    surfaces=("library", "http"),
    examples=(
        Example({}),
        Example({"since": "2026-01-31T09:00:00Z", "limit": 2}),
        Example({"since": "yesterday"}, error="VALIDATION_FAILED"),
        Example({"limit": 0}, error="VALIDATION_FAILED"),
    ),
)
def sync_since(ctx: Context, request: SyncSince) -> SyncSinceResult:
    """Return changes after a cursor to an ai-memory peer, including deletions."""
    behind = read_changes(ctx, request.since, limit=request.limit, peer=request.peer)
    places = [row["updated_at"] for row in behind.memories]
    return SyncSinceResult(
        count=len(behind.memories),
        limit=request.limit,
        memories=behind.memories,
        deletions=behind.deletions,
        archives=behind.archives,
        excluded_for_scope=0,
        excluded_for_scope_private=0,
        scope_status="scoped",
        has_more=behind.more,
        updated_since=value_or_unset(request.since),
        earliest_updated_at=places[0] if places else UNSET,
        latest_updated_at=places[-1] if places else UNSET,
        next_cursor=value_or_unset(behind.next or request.since),
    )
