"""Operations: delete, promote, forget, collect, archive, restore, purge."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.memories import lifecycle, retention
from holdfast.features.memories import promote as promotion
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import EVERYTHING, Filter
from holdfast.features.memories.views import MemoryView, memory_view, memory_views
from holdfast.features.reflections.list_stale import notified_or_unset
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.registry.fields import Actor, Id, Limit, Namespace, Skip, TierField
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation

ExpectedVersion = Annotated[int, Meta(ge=1, le=(1 << 53) - 1, description="Fail if the memory is at another version.")]


class Delete(Request, frozen=True):
    id: Id
    expected_version: ExpectedVersion | None = None
    agent_id: Actor | None = None


class DeleteResult(Struct, frozen=True, kw_only=True):
    deleted: bool
    id: str
    version: int
    invalidation_notified: list[str] | UnsetType = UNSET
    """Ids of its dependents that were flagged stale, as far as you may see them."""


@operation(
    Effect.DESTROY,
    "DELETE /api/v1/memories/{id}",
    stage="delete",
    human="holdfast.features.memories.render:render_deletion",
    examples=(Example({"id": "no-such-memory"}, error="NOT_FOUND"), Example({"id": "1f3a9c20"}, prepared=True)),
)
def delete(ctx: Context, request: Delete) -> DeleteResult:
    """Delete a memory; `undo` restores it."""
    memory = lifecycle.delete(ctx, request.id, request.expected_version)
    return DeleteResult(
        deleted=True, id=memory.id, version=memory.version, invalidation_notified=notified_or_unset(ctx)
    )


class Promote(Request, frozen=True):
    id: Id
    target_tier: Annotated[Literal["mid", "long"], Meta(description="Tier to move it to.")] = "long"
    to_namespace: Annotated[Namespace, Meta(description="Copy it to this parent namespace instead.")] | None = None


class PromoteResult(MemoryView, frozen=True, kw_only=True):
    promoted: bool
    mode: Literal["tier", "vertical"]
    source_id: str | UnsetType = UNSET
    clone_id: str | UnsetType = UNSET


@operation(
    Effect.WRITE,
    "POST /api/v1/memories/{id}/promote",
    cli=("curate", "promote"),
    aliases=("promote",),
    stage="store",
    human="holdfast.features.memories.render:render_memory",
    examples=(
        Example({"id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"id": "5d0c93aa"}, prepared=True),
        Example({"id": "1f3a9c20", "to_namespace": "shop"}, prepared=True),
    ),
)
def promote(ctx: Context, request: Promote) -> PromoteResult:
    """Move a memory to a longer-lived tier, or copy it to a parent namespace."""
    if request.to_namespace is None:
        promoted = promotion.promote_tier(ctx, request.id, request.target_tier)
        return memory_view(promoted, type=PromoteResult, promoted=True, mode="tier")
    source, copy = promotion.promote_to_namespace(ctx, request.id, request.to_namespace)
    return memory_view(copy, type=PromoteResult, promoted=True, mode="vertical", source_id=source.id, clone_id=copy.id)


class Forget(Request, frozen=True):
    namespace: Namespace | None = None
    pattern: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=4096,
                description="Words; any may match.",
                extra={"short": "p", "role": "words"},
            ),
        ]
        | None
    ) = None
    tier: TierField | None = None
    dry_run: Annotated[bool, Meta(description="Only report what would change.")] = False


class ForgetResult(Struct, frozen=True, kw_only=True):
    deleted: int
    archived: int
    dry_run: bool
    ids: list[str]
    kept: list[str]
    """Matching memories of other agents: skipped."""
    would_delete: int | UnsetType = UNSET
    invalidation_notified: list[str] | UnsetType = UNSET
    """Ids of dependents that were flagged stale, as far as you may see them."""


@operation(
    Effect.DESTROY,
    "POST /api/v1/forget",
    cli=("archive", "matching"),
    aliases=("forget",),
    stage="delete",
    at_least_one=("namespace", "pattern", "tier"),
    examples=(
        Example({"namespace": "nowhere", "dry_run": True}),
        Example({}, error="FILTER_REQUIRED"),
        Example({"namespace": "shop/old", "dry_run": True}, prepared=True),
        Example({"pattern": "rollback staging"}, prepared=True),
    ),
)
def forget(ctx: Context, request: Forget) -> ForgetResult:
    """Archive every memory matching a filter."""
    which = Filter(namespace=request.namespace, tier=request.tier)
    ids, skipped = lifecycle.forget(ctx, which, request.pattern, dry_run=request.dry_run)
    count = 0 if request.dry_run else len(ids)
    return ForgetResult(
        deleted=count,
        archived=count,
        dry_run=request.dry_run,
        ids=ids,
        kept=skipped,
        would_delete=len(ids) if request.dry_run else UNSET,
        invalidation_notified=notified_or_unset(ctx),
    )


class Gc(Request, frozen=True):
    dry_run: Annotated[bool, Meta(description="Only report what would change.")] = False


class GcResult(Struct, frozen=True, kw_only=True):
    collected: int
    expired_deleted: int
    usage_dropped: int
    """Model usage records past their retention."""
    task_runs_dropped: int
    runs_dropped: int
    dry_run: bool
    invalidation_notified: list[str] | UnsetType = UNSET
    """Ids of dependents that were flagged stale, as far as you may see them."""


@operation(
    Effect.WRITE,
    "POST /api/v1/gc",
    cli=("admin", "gc"),
    aliases=("gc",),
    examples=(Example({"dry_run": True}), Example({}), Example({"dry_run": "perhaps"}, error="VALIDATION_FAILED")),
)
def gc(ctx: Context, request: Gc, progress: Progress) -> GcResult:
    """Archive expired memories and delete records past their retention."""
    ids = lifecycle.collect_expired_memories(ctx, dry_run=request.dry_run)
    pruned = retention.prune_records(ctx, dry_run=request.dry_run)
    return GcResult(
        collected=len(ids),
        expired_deleted=len(ids),
        usage_dropped=pruned["usage"],
        task_runs_dropped=pruned["task_run"],
        runs_dropped=pruned["run"],
        dry_run=request.dry_run,
        invalidation_notified=notified_or_unset(ctx),
    )


class Archive(Request, frozen=True):
    ids: Annotated[
        list[Id], Meta(min_length=1, max_length=1000, description="Memories to archive.", extra={"argument": True})
    ]
    reason: Annotated[str, Meta(min_length=1, max_length=128, description="Why, in one line.")] = "archive"


class ArchiveOutcome(Struct, frozen=True, kw_only=True):
    id: str
    outcome: Literal["applied", "rejected"]
    error: str | UnsetType = UNSET
    code: str | UnsetType = UNSET


class ArchiveResult(Struct, frozen=True, kw_only=True):
    archived: list[str]
    missing: list[str]
    count: int
    reason: str
    outcomes: list[ArchiveOutcome]
    invalidation_notified: list[str] | UnsetType = UNSET
    """Ids of dependents that were flagged stale, as far as you may see them."""


@operation(
    Effect.WRITE,
    "POST /api/v1/archive",
    cli=("archive", "add"),
    human="holdfast.features.memories.render:render_batch",
    examples=(
        Example({"ids": ["no-such-memory"]}),
        Example({"ids": []}, error="VALIDATION_FAILED"),
        Example({"ids": ["1f3a9c20"]}, prepared=True),
        Example({"ids": ["1f3a9c20", "8b2e41d7"], "reason": "outdated"}, prepared=True),
    ),
)
def archive(ctx: Context, request: Archive) -> ArchiveResult:
    """Archive memories; restoring them restores their links."""
    result = lifecycle.archive(ctx, request.ids, request.reason)
    done = [ArchiveOutcome(id=memory.id, outcome="applied") for memory in result.archived]
    refused = [ArchiveOutcome(id=id, outcome="rejected", error=e.message, code=e.code) for id, e in result.refused]
    return ArchiveResult(
        archived=[memory.id for memory in result.archived],
        missing=[id for id, _ in result.refused],
        count=len(result.archived),
        reason=request.reason,
        outcomes=done + refused,
        invalidation_notified=notified_or_unset(ctx),
    )


class ArchiveList(Request, frozen=True):
    namespace: Namespace | None = None
    limit: Limit = 50
    offset: Skip = 0


class ArchivePage(Struct, frozen=True, kw_only=True):
    archived: list[MemoryView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/archive",
    cli=("archive", "list"),
    human="holdfast.features.memories.render:render_archive",
    examples=(Example({}), Example({"limit": 1001}, error="VALIDATION_FAILED")),
)
def archive_list(ctx: Context, request: ArchiveList) -> ArchivePage:
    """List archived and expired memories, newest first."""
    with ctx.reading() as session:
        found = memories.select(
            session,
            ctx.caller,
            Filter(namespace=request.namespace),
            ctx.now(),
            order="by_archival",
            limit=request.limit,
            skip=request.offset,
            view="archived",
        )
        views = memory_views(session, found)
    return ArchivePage(archived=views, count=len(views))


class ArchiveRestore(Request, frozen=True):
    id: Id


class RestoreResult(MemoryView, frozen=True, kw_only=True):
    restored: bool


@operation(
    Effect.WRITE,
    "POST /api/v1/archive/{id}/restore",
    cli=("archive", "restore"),
    stage="store",
    human="holdfast.features.memories.render:render_memory",
    examples=(Example({"id": "no-such-memory"}, error="NOT_FOUND"), Example({"id": "a6c4f318"}, prepared=True)),
)
def archive_restore(ctx: Context, request: ArchiveRestore) -> RestoreResult:
    """Restore an archived memory and restart its lifetime."""
    return memory_view(lifecycle.restore(ctx, request.id), type=RestoreResult, restored=True)


class ArchivePurge(Request, frozen=True):
    ids: Annotated[list[Id], Meta(max_length=1000, description="Only these memories.")] | None = None
    older_than_days: (
        Annotated[int, Meta(ge=0, le=36_500, description="Only those archived at least this long ago; 0: all.")] | None
    ) = None


class PurgeResult(Struct, frozen=True, kw_only=True):
    purged: int
    kept: list[str]
    """Matching memories of other agents: skipped."""


@operation(
    Effect.DESTROY,
    "DELETE /api/v1/archive",
    cli=("archive", "purge"),
    stage="delete",
    irreversible=True,
    at_least_one=("ids", "older_than_days"),
    examples=(
        Example({"older_than_days": 30}),
        Example({"older_than_days": -1}, error="VALIDATION_FAILED"),
        Example({}, error="FILTER_REQUIRED"),
        Example({"older_than_days": 30}, prepared=True),
    ),
)
def archive_purge(ctx: Context, request: ArchivePurge) -> PurgeResult:
    """Permanently erase archived memories and their history."""
    result = lifecycle.purge(ctx, request.ids, request.older_than_days)
    return PurgeResult(purged=len(result.ids), kept=result.kept)


class NamespaceCount(Struct, frozen=True):
    namespace: str
    count: int


class ArchiveStats(Struct, frozen=True, kw_only=True):
    archived_total: int
    by_namespace: list[NamespaceCount]


@operation(Effect.READ, "GET /api/v1/archive/stats", cli=("archive", "stats"), examples=(Example({}),))
def archive_stats(ctx: Context, request: EmptyRequest) -> ArchiveStats:
    """Count archived memories by namespace."""
    with ctx.reading() as session:
        by = memories.count_by(session, ctx.caller, EVERYTHING, ctx.now(), "namespace", view="archived")
    return ArchiveStats(archived_total=sum(n for _, n in by), by_namespace=[NamespaceCount(name, n) for name, n in by])
