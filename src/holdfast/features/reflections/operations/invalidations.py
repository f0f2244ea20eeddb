"""Operations: list stale memories and dependents, resolve notices."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.memories.views import MemoryView
from holdfast.features.reflections import invalidation_store, list_stale
from holdfast.features.reflections.invalidation import Status
from holdfast.features.reflections.invalidation_store import MAX_HOPS, InvalidationFilter
from holdfast.features.reflections.list_stale import NoticeView, ResolutionOutcome
from holdfast.kernel.context import Context
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.records.validate import INVALIDATIONS_VIEW
from holdfast.kernel.registry.fields import Actor, Id, Limit, Namespace, Skip
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset
from holdfast.kernel.timestamps import TimeText, format_timestamp

MemoryId = Annotated[Id, Meta(extra={"argument": False})]
InvalidationId = Annotated[str, Meta(min_length=1, max_length=128, extra={"argument": True})]


class Invalidations(Request, frozen=True):
    status: Annotated[list[Status], Meta(max_length=4, description="Only with one of these statuses.")] = []
    namespace: Annotated[Namespace, Meta(description="Namespace of the stale memories.")] | None = None
    dependent_id: Annotated[MemoryId, Meta(description="Only notices of this memory.")] | None = None
    invalidated_id: Annotated[MemoryId, Meta(description="Only notices caused by this source.")] | None = None
    limit: Limit = 50
    offset: Skip = 0


class InvalidationView(Struct, frozen=True, kw_only=True):
    """A stale memory and the source that was invalidated."""

    id: str
    dependent_id: str
    title: str
    namespace: str
    agent_id: str
    """Owner of the stale memory."""
    hop: int
    """Distance from the source: 1 is a direct dependent."""
    cause: str
    status: str
    created_at: TimeText
    updated_at: TimeText
    version: int
    invalidated_id: str | UnsetType = UNSET
    """The source, if you may see it."""
    invalidating_id: str | UnsetType = UNSET
    """Its replacement, if there is one that you may see."""
    reason: str | UnsetType = UNSET
    resolver: str | UnsetType = UNSET


class InvalidationPage(Struct, frozen=True, kw_only=True):
    invalidations: list[InvalidationView]
    count: int
    total: int
    """Count over all pages."""


def invalidation_view(shown: NoticeView) -> InvalidationView:
    one = shown.notice.invalidation
    return InvalidationView(
        id=one.id,
        dependent_id=one.dependent,
        title=shown.notice.title,
        namespace=shown.notice.namespace,
        agent_id=shown.notice.agent,
        hop=one.hop,
        cause=one.cause,
        status=one.status,
        created_at=format_timestamp(one.created_at),
        updated_at=format_timestamp(one.updated_at),
        version=one.version,
        invalidated_id=value_or_unset(shown.invalidated),
        invalidating_id=value_or_unset(shown.invalidating),
        reason=value_or_unset(one.reason),
        resolver=value_or_unset(one.resolver),
    )


@operation(
    Effect.READ,
    "GET /api/v1/invalidations",
    cli=("stale",),
    aliases=("invalidations list", "stale list"),
    human="holdfast.features.reflections.render:render_invalidations",
    examples=(
        Example({}),
        Example({"status": ["open", "acknowledged"], "namespace": "team", "limit": 5}),
        Example({"status": ["forgotten"]}, error="VALIDATION_FAILED"),
        Example({"dependent_id": "no-such-memory"}, error="NOT_FOUND"),
        Example({}, prepared=True),
        Example({"status": ["open"], "namespace": "shop"}, prepared=True),
    ),
)
def invalidations(ctx: Context, request: Invalidations) -> InvalidationPage:
    """List stale memories whose sources changed or were deleted."""
    which = InvalidationFilter(
        statuses=tuple(request.status),
        namespace=request.namespace,
        dependent=request.dependent_id,
        invalidated=request.invalidated_id,
    )
    with ctx.reading() as session:
        found, total = list_stale.list_notices(ctx, session, which, limit=request.limit, skip=request.offset)
    return InvalidationPage(invalidations=[invalidation_view(one) for one in found], count=len(found), total=total)


class SetInvalidationStatus(Request, frozen=True):
    ids: Annotated[
        list[InvalidationId],
        Meta(min_length=1, max_length=1000, description="Notices to update.", extra={"argument": True}),
    ]
    reason: Annotated[str, Meta(min_length=1, max_length=512, description="Why, in one line.")] | None = None
    agent_id: Actor | None = None


class InvalidationOutcome(Struct, frozen=True, kw_only=True):
    id: str
    outcome: Literal["applied", "unchanged", "rejected"]
    error: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    reflect_with: list[str] | UnsetType = UNSET
    """Current sources of the dependent: invalidated ones replaced, or omitted if there is no replacement."""


class InvalidationOutcomes(Struct, frozen=True, kw_only=True):
    status: str
    count: int
    outcomes: list[InvalidationOutcome]


def build_outcome(one: ResolutionOutcome) -> InvalidationOutcome:
    if isinstance(one.result, HoldfastError):
        return InvalidationOutcome(id=one.id, outcome="rejected", error=one.result.message, code=one.result.code)
    return InvalidationOutcome(id=one.id, outcome=one.result, reflect_with=one.reflect_with or UNSET)


def set_invalidation_status(ctx: Context, request: SetInvalidationStatus, status: Status) -> InvalidationOutcomes:
    outcomes = [build_outcome(one) for one in list_stale.set_status(ctx, request.ids, status, request.reason)]
    return InvalidationOutcomes(
        status=status, count=sum(one.outcome != "rejected" for one in outcomes), outcomes=outcomes
    )


_EXAMPLES = (
    Example({"ids": ["no-such-invalidation"]}),
    Example({"ids": []}, error="VALIDATION_FAILED"),
    Example({"ids": ["any"], "reason": "two\nlines"}, error="VALIDATION_FAILED"),
)


@operation(
    Effect.WRITE,
    "POST /api/v1/invalidations/acknowledge",
    cli=("stale", "acknowledge"),
    aliases=("invalidations acknowledge",),
    human="holdfast.features.reflections.render:render_resolutions",
    examples=(*_EXAMPLES, Example({"ids": ["af52c718"]}, prepared=True)),
)
def invalidations_acknowledge(ctx: Context, request: SetInvalidationStatus) -> InvalidationOutcomes:
    """Acknowledge notices; the memories stay stale."""
    return set_invalidation_status(ctx, request, "acknowledged")


@operation(
    Effect.WRITE,
    "POST /api/v1/invalidations/resolve",
    cli=("stale", "resolve"),
    aliases=("invalidations resolve",),
    human="holdfast.features.reflections.render:render_resolutions",
    examples=(*_EXAMPLES, Example({"ids": ["af52c718"]}, prepared=True)),
)
def invalidations_resolve(ctx: Context, request: SetInvalidationStatus) -> InvalidationOutcomes:
    """Mark as resolved; returns suggested sources for a new reflection."""
    return set_invalidation_status(ctx, request, "resolved")


@operation(
    Effect.WRITE,
    "POST /api/v1/invalidations/dismiss",
    cli=("stale", "dismiss"),
    aliases=("invalidations dismiss",),
    human="holdfast.features.reflections.render:render_resolutions",
    examples=(*_EXAMPLES, Example({"ids": ["af52c718"], "reason": "Still true."}, prepared=True)),
)
def invalidations_dismiss(ctx: Context, request: SetInvalidationStatus) -> InvalidationOutcomes:
    """Dismiss notices: the memory is still correct."""
    return set_invalidation_status(ctx, request, "dismissed")


class Dependents(Request, frozen=True):
    id: Id
    hops: Annotated[int, Meta(ge=1, le=MAX_HOPS, description="Maximum distance; 1: direct dependents only.")] = MAX_HOPS
    limit: Limit = 1000


class DependentView(Struct, frozen=True, kw_only=True):
    id: str
    title: str
    namespace: str
    memory_kind: str
    hop: int
    stale: bool
    """Whether it has a pending notice, for any reason."""


class DependentsResult(Struct, frozen=True, kw_only=True):
    id: str
    dependents: list[DependentView]
    count: int
    total: int
    """Count including those beyond the limit."""


@operation(
    Effect.READ,
    "GET /api/v1/memories/{id}/dependents",
    cli=("graph", "dependents"),
    aliases=("dependents",),
    human="holdfast.features.reflections.render:render_dependents",
    examples=(
        Example({"id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"id": "any", "hops": 0}, error="VALIDATION_FAILED"),
        Example({"id": "1f3a9c20"}, prepared=True),
    ),
)
def dependents(ctx: Context, request: Dependents) -> DependentsResult:
    """List memories derived from this one, directly or indirectly."""
    with ctx.reading() as session:
        id, found = list_stale.list_dependents(ctx, session, request.id, hops=request.hops)
        near = found[: request.limit]
        stale = invalidation_store.find_stale(session, ctx.caller, [one.memory.id for one in near], ctx.now())
    views = [
        DependentView(
            id=one.memory.id,
            title=one.memory.title,
            namespace=one.memory.namespace,
            memory_kind=one.memory.kind,
            hop=one.hop,
            stale=one.memory.id in stale,
        )
        for one in near
    ]
    return DependentsResult(id=id, dependents=views, count=len(views), total=len(found))


def to_memory_view(shown: NoticeView) -> MemoryView:
    """Build the memory view of an invalidation: ai-memory stores each as a memory."""
    one, notice = shown.notice.invalidation, shown.notice
    source = shown.invalidated or "a private memory"
    at = format_timestamp(one.created_at)
    ids = {"invalidated_id": shown.invalidated, "invalidating_id": shown.invalidating or shown.invalidated}
    return MemoryView(
        id=one.id,
        tier="mid",
        namespace=f"{notice.namespace}/{INVALIDATIONS_VIEW}",
        title=f"invalidation: {source} -> {one.dependent}",
        content=f"{notice.title!r} is derived from {source}, which is {one.cause}. Status: {one.status}.",
        tags=["_invalidation"],
        priority=7,
        confidence=1.0,
        source="notification",
        scope=notice.scope,
        agent_id=notice.agent,
        memory_kind="observation",
        access_count=0,
        created_at=at,
        updated_at=format_timestamp(one.updated_at),
        metadata={
            "notification_kind": "reflection_invalidation",
            "dependent_id": one.dependent,
            **{name: id for name, id in ids.items() if id is not None},
            "timestamp": at,
            "cause": one.cause,
            "hop": one.hop,
            "status": one.status,
        },
        citations=[],
        reflection_depth=0,
        version=one.version,
        state="live",
    )
