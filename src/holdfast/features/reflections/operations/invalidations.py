"""What is stale because something it stands on fell."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.memories.views import MemoryView, known
from holdfast.features.reflections import invalidation_store as stored
from holdfast.features.reflections import list_stale as invalidation
from holdfast.features.reflections.invalidation import Status
from holdfast.features.reflections.invalidation_store import Which
from holdfast.features.reflections.list_stale import Settled, Shown
from holdfast.features.reflections.pending_expiry import MOST_HOPS
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import HoldfastError, NotFound
from holdfast.kernel.records.validate import VIEW
from holdfast.kernel.registry.fields import Actor, Id, Limit, Namespace, Skip
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import to_text

MemoryId = Annotated[Id, Meta(extra={"argument": False})]
InvalidationId = Annotated[str, Meta(min_length=1, max_length=128, extra={"argument": True})]


class Invalidations(Request, frozen=True):
    status: Annotated[list[Status], Meta(max_length=4, description="Only those that are one of these.")] = []
    namespace: Annotated[Namespace, Meta(description="Of memories here.")] | None = None
    dependent_id: Annotated[MemoryId, Meta(description="Of this memory.")] | None = None
    invalidated_id: Annotated[MemoryId, Meta(description="Because of this memory.")] | None = None
    limit: Limit = 50
    offset: Skip = 0


class InvalidationView(Struct, frozen=True, kw_only=True):
    """A memory that stands on one that fell."""

    id: str
    dependent_id: str
    title: str
    namespace: str
    agent_id: str
    """Whose memory it is."""
    hop: int
    """How far it stands from what fell: 1 is directly on it."""
    cause: str
    status: str
    created_at: str
    updated_at: str
    version: int
    invalidated_id: str | UnsetType = UNSET
    """What fell, if you may see it."""
    invalidating_id: str | UnsetType = UNSET
    """What took its place, if anything did and you may see it."""
    reason: str | UnsetType = UNSET
    resolver: str | UnsetType = UNSET


class InvalidationPage(Struct, frozen=True, kw_only=True):
    invalidations: list[InvalidationView]
    count: int
    total: int
    """On all pages together."""


def invalidation_view(shown: Shown) -> InvalidationView:
    one = shown.told.one
    return InvalidationView(
        id=one.id,
        dependent_id=one.dependent,
        title=shown.told.title,
        namespace=shown.told.namespace,
        agent_id=shown.told.agent,
        hop=one.hop,
        cause=one.cause,
        status=one.status,
        created_at=to_text(one.created_at),
        updated_at=to_text(one.updated_at),
        version=one.version,
        invalidated_id=known(shown.invalidated),
        invalidating_id=known(shown.invalidating),
        reason=known(one.reason),
        resolver=known(one.resolver),
    )


@operation(
    Effect.READ,
    "GET /api/v1/invalidations",
    family="power",
    cli=("invalidations", "list"),
    human="holdfast.features.reflections.render:render_invalidations",
    examples=(
        Example({}),
        Example({"status": ["open", "acknowledged"], "namespace": "team", "limit": 5}),
        Example({"status": ["forgotten"]}, error="VALIDATION_FAILED"),
        Example({"dependent_id": "no-such-memory"}, error="NOT_FOUND"),
    ),
)
def invalidations(hold: Hold, request: Invalidations) -> InvalidationPage:
    """List memories that stand on something that fell, and what became of it."""
    which = Which(
        statuses=tuple(request.status),
        namespace=request.namespace,
        dependent=request.dependent_id,
        invalidated=request.invalidated_id,
    )
    with hold.reading() as session:
        found, total = invalidation.browse(hold, session, which, limit=request.limit, skip=request.offset)
    return InvalidationPage(invalidations=[invalidation_view(one) for one in found], count=len(found), total=total)


def notified(hold: Hold) -> list[str] | UnsetType:
    """What was told of a fall by what the caller just did, if anything was."""
    return invalidation.notified(hold) or UNSET


class Settle(Request, frozen=True):
    ids: Annotated[
        list[InvalidationId],
        Meta(min_length=1, max_length=1000, description="Which invalidations.", extra={"argument": True}),
    ]
    reason: Annotated[str, Meta(min_length=1, max_length=512, description="Why, in one line.")] | None = None
    agent_id: Actor | None = None


class SettleOutcome(Struct, frozen=True, kw_only=True):
    id: str
    outcome: Literal["applied", "unchanged", "rejected"]
    error: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    reflect_with: list[str] | UnsetType = UNSET
    """The sources of the dependent as they are now: what fell is replaced by what took its place, or left out."""


class SettledAll(Struct, frozen=True, kw_only=True):
    status: str
    count: int
    outcomes: list[SettleOutcome]


def settle_outcome(one: Settled) -> SettleOutcome:
    if isinstance(one.result, HoldfastError):
        return SettleOutcome(id=one.id, outcome="rejected", error=one.result.message, code=one.result.code)
    return SettleOutcome(id=one.id, outcome=one.result, reflect_with=one.reflect_with or UNSET)


def settled(hold: Hold, request: Settle, status: Status) -> SettledAll:
    outcomes = [settle_outcome(one) for one in invalidation.settle(hold, request.ids, status, request.reason)]
    return SettledAll(status=status, count=sum(one.outcome != "rejected" for one in outcomes), outcomes=outcomes)


_EXAMPLES = (
    Example({"ids": ["no-such-invalidation"]}),
    Example({"ids": []}, error="VALIDATION_FAILED"),
    Example({"ids": ["any"], "reason": "two\nlines"}, error="VALIDATION_FAILED"),
)


@operation(
    Effect.WRITE,
    "POST /api/v1/invalidations/acknowledge",
    family="power",
    cli=("invalidations", "acknowledge"),
    human="holdfast.features.reflections.render:render_resolutions",
    examples=_EXAMPLES,
)
def invalidations_acknowledge(hold: Hold, request: Settle) -> SettledAll:
    """Say that you know; the memory stays stale."""
    return settled(hold, request, "acknowledged")


@operation(
    Effect.WRITE,
    "POST /api/v1/invalidations/resolve",
    family="power",
    cli=("invalidations", "resolve"),
    human="holdfast.features.reflections.render:render_resolutions",
    examples=_EXAMPLES,
)
def invalidations_resolve(hold: Hold, request: Settle) -> SettledAll:
    """Say that it was dealt with; tells what the memory could be drawn from anew."""
    return settled(hold, request, "resolved")


@operation(
    Effect.WRITE,
    "POST /api/v1/invalidations/dismiss",
    family="power",
    cli=("invalidations", "dismiss"),
    human="holdfast.features.reflections.render:render_resolutions",
    examples=_EXAMPLES,
)
def invalidations_dismiss(hold: Hold, request: Settle) -> SettledAll:
    """Say that the memory holds all the same."""
    return settled(hold, request, "dismissed")


class Dependents(Request, frozen=True):
    id: Id
    hops: Annotated[int, Meta(ge=1, le=MOST_HOPS, description="At most this far away; 1: only directly.")] = MOST_HOPS
    limit: Limit = 1000


class DependentView(Struct, frozen=True, kw_only=True):
    id: str
    title: str
    namespace: str
    memory_kind: str
    hop: int
    stale: bool
    """Whether it waits for somebody to look at it, for whatever reason."""


class DependentsFound(Struct, frozen=True, kw_only=True):
    id: str
    dependents: list[DependentView]
    count: int
    total: int
    """With those beyond the limit."""


@operation(
    Effect.READ,
    "GET /api/v1/memories/{id}/dependents",
    family="power",
    human="holdfast.features.reflections.render:render_dependents",
    examples=(
        Example({"id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"id": "any", "hops": 0}, error="VALIDATION_FAILED"),
    ),
)
def dependents(hold: Hold, request: Dependents) -> DependentsFound:
    """Tell what stands on a memory, directly or through others: what would be stale without it."""
    with hold.reading() as session:
        id, found = invalidation.dependents(hold, session, request.id, hops=request.hops)
        near = found[: request.limit]
        stale = stored.stale(session, hold.caller, [one.memory.id for one in near], hold.now())
    shown = [
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
    return DependentsFound(id=id, dependents=shown, count=len(shown), total=len(found))


class DependentsOfInvalidated(Request, frozen=True):
    memory_id: Annotated[Id, Meta(extra={"argument": True})]


class DirectDependent(Struct, frozen=True, kw_only=True):
    id: str
    namespace: str


class DirectDependents(Struct, frozen=True, kw_only=True):
    memory_id: str
    count: int
    dependents: list[DirectDependent]


@operation(
    Effect.READ,
    "POST /api/v1/memory_dependents_of_invalidated",
    family="power",
    examples=(Example({"memory_id": "no-such-memory"}), Example({"memory_id": ""}, error="VALIDATION_FAILED")),
)
def dependents_of_invalidated(hold: Hold, request: DependentsOfInvalidated) -> DirectDependents:
    """Name what stands directly on a memory, as ai-memory does: nothing stands on one that is not there."""
    with hold.reading() as session:
        try:
            id, found = invalidation.dependents(hold, session, request.memory_id, hops=1)
        except NotFound:
            id, found = request.memory_id, []
    shown = [DirectDependent(id=one.memory.id, namespace=one.memory.namespace) for one in found]
    return DirectDependents(memory_id=id, count=len(shown), dependents=shown)


def memory_like(shown: Shown) -> MemoryView:
    """An invalidation as ai-memory keeps it, which makes a memory of each."""
    one, told = shown.told.one, shown.told
    fell = shown.invalidated or "something private"
    at = to_text(one.created_at)
    named = {"invalidated_id": shown.invalidated, "invalidating_id": shown.invalidating or shown.invalidated}
    return MemoryView(
        id=one.id,
        tier="mid",
        namespace=f"{told.namespace}/{VIEW}",
        title=f"invalidation: {fell} -> {one.dependent}",
        content=f"{told.title!r} stands on {fell}, which is {one.cause}. This is {one.status}.",
        tags=["_invalidation"],
        priority=7,
        confidence=1.0,
        source="notification",
        scope=told.scope,
        agent_id=told.agent,
        memory_kind="observation",
        access_count=0,
        created_at=at,
        updated_at=to_text(one.updated_at),
        metadata={
            "notification_kind": "reflection_invalidation",
            "dependent_id": one.dependent,
            **{name: id for name, id in named.items() if id is not None},
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
