"""Create reflections: the memory, its source links and the journal entries in one transaction."""

from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from holdfast.features.graph.depth import check_max_depth, depth_above, needs_approval, with_origin
from holdfast.features.graph.service import add_link
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories import store_memory
from holdfast.features.memories.store_memory import require_free_title
from holdfast.features.namespaces.model import Rules
from holdfast.features.namespaces.resolve_rules import resolve_rules
from holdfast.features.reflections import approvals_store
from holdfast.features.reflections.approvals_store import PendingRequest
from holdfast.kernel.context import Context
from holdfast.kernel.errors import DepthMismatch, Invalid, NotFound
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory, Scope, Tier
from holdfast.kernel.records.validate import Draft, memory_from_draft
from holdfast.kernel.timestamps import derive_id

MAX_SOURCES = 256
OPERATION = "reflect"


class ReflectionRequest(Struct, frozen=True, kw_only=True):
    """A request for a reflection; stored as JSON while it waits for approval."""

    source_ids: tuple[str, ...]
    title: str
    content: str
    namespace: str | None = None
    tier: Tier
    tags: tuple[str, ...] = ()
    priority: int = 5
    confidence: float = 1.0
    scope: Scope | None = None
    metadata: dict[str, Any] = {}
    depth: int | None = None
    source: str = "api"
    reach: tuple[str, ...] = ()
    """The namespaces that the requester could access."""


class ReflectionPlan(NamedTuple):
    """A validated reflection that is not written yet."""

    memory: Memory
    sources: list[Memory]
    rules: Rules

    @property
    def needs_approval(self) -> bool:
        return needs_approval(self.rules, self.memory.reflection_depth)


class Reflection(NamedTuple):
    memory: Memory
    sources: list[str]


def reflect(ctx: Context, request: ReflectionRequest) -> Reflection | tuple[PendingRequest, ReflectionPlan]:
    """Write a reflection, or queue its request if the policy requires approval."""
    with ctx.transaction() as write:
        planned = plan_reflection(ctx, write, request)
        return (
            (_queue_approval(ctx, write, request, planned), planned)
            if planned.needs_approval
            else write_reflection(ctx, write, planned)
        )


def plan_reflection(ctx: Context, write: Transaction, request: ReflectionRequest) -> ReflectionPlan:
    """Build the reflection from the current sources; raise if it is not allowed."""
    sources = _resolve_sources(ctx, write, request.source_ids)
    memory = _build_memory(ctx, write, request, sources)
    ctx.caller.require_access(memory.namespace)
    if request.depth is not None and request.depth != memory.reflection_depth:
        raise DepthMismatch(
            f"depth: these sources give {memory.reflection_depth}, not {request.depth}", fields=["depth"]
        )
    rules = resolve_rules(write.session, memory.namespace)
    check_max_depth(rules, memory.reflection_depth, memory.namespace)
    require_free_title(ctx, write, memory)
    return ReflectionPlan(memory, sources, rules)


def write_reflection(ctx: Context, write: Transaction, planned: ReflectionPlan) -> Reflection:
    """Write the reflection and its links."""
    memory = write.add(MEMORY, planned.memory, "reflect")
    for source in planned.sources:
        add_link(ctx, write, memory.id, source.id, "reflects_on")
    source_ids = [source.id for source in planned.sources]
    write.session.do("reflection_proposal_decide", id=offer_id(source_ids), status="accepted")
    return Reflection(memory, source_ids)


def offer_id(sources: Sequence[str]) -> str:
    """Derive a proposal's id from its sources, in any order."""
    return derive_id("offer", *sorted(sources))


def _resolve_sources(ctx: Context, write: Transaction, given: Sequence[str]) -> list[Memory]:
    """Resolve the sources; raise if one is missing, not visible or a duplicate."""
    if not 0 < len(given) <= MAX_SOURCES:
        raise Invalid(f"source_ids: must have 1 to {MAX_SOURCES} entries (got {len(given)})", fields=["source_ids"])
    found: dict[str, int] = {}
    sources = []
    for index, id in enumerate(given):
        source = _resolve_source(ctx, write, id, index)
        if (first := found.setdefault(source.id, index)) != index:
            field = f"source_ids[{index}]"
            raise Invalid(f"{field}: same memory as source_ids[{first}]", fields=[field])
        sources.append(source)
    return sources


def _resolve_source(ctx: Context, write: Transaction, id: str, index: int) -> Memory:
    try:
        return memories.resolve(write.session, ctx.caller, id, write.now)
    except NotFound:
        field = f"source_ids[{index}]"
        raise NotFound(f"{field}: there is no memory {id!r}.", id=id, fields=[field]) from None


def _build_memory(ctx: Context, write: Transaction, request: ReflectionRequest, sources: list[Memory]) -> Memory:
    """Build the memory. Its scope defaults to the narrowest of its sources."""
    draft = Draft(
        title=request.title,
        content=request.content,
        namespace=request.namespace or sources[0].namespace,
        tier=request.tier,
        kind="reflection",
        priority=request.priority,
        confidence=request.confidence,
        source=request.source,
        scope=_pick_scope(request, sources),
        tags=request.tags,
        metadata=request.metadata,
    )
    draft, _ = store_memory.filter_draft_secrets(write.session, draft)
    fresh = memory_from_draft(
        draft, id=ctx.new_id(), agent=ctx.caller.agent, origin=write.origin, now=write.now, lifetimes=ctx.lifetimes
    )
    depth = depth_above(source.reflection_depth for source in sources)
    return with_origin(replace(fresh, reflection_depth=depth), depth)


def _pick_scope(request: ReflectionRequest, sources: list[Memory]) -> Scope | UnsetType:
    if request.scope is not None:
        return request.scope
    if "scope" in request.metadata:
        return UNSET
    return min((source.scope for source in sources), key=get_args(Scope).index)


def _filter_metadata(write: Transaction, planned: ReflectionPlan, request: ReflectionRequest) -> dict[str, Any]:
    """Apply the secret policy to the metadata of a queued request."""
    given = {"metadata": request.metadata}
    return dict(store_memory.filter_secrets(write.session, planned.memory.namespace, given)[0]["metadata"])


def _queue_approval(
    ctx: Context, write: Transaction, request: ReflectionRequest, planned: ReflectionPlan
) -> PendingRequest:
    """Queue the request for approval with full ids and the resolved namespace."""
    complete = replace(
        request,
        title=planned.memory.title,
        content=planned.memory.content,
        tags=planned.memory.tags,
        metadata=_filter_metadata(write, planned, request),
        source_ids=tuple(source.id for source in planned.sources),
        namespace=planned.memory.namespace,
        reach=ctx.caller.namespaces,
    )
    encoded = msgspec.json.encode(complete).decode()
    pending = PendingRequest(
        id=planned.memory.id,
        operation=OPERATION,
        namespace=planned.memory.namespace,
        scope=planned.memory.scope,
        request=encoded,
        agent=ctx.caller.agent,
        asked_at=write.now,
        status="pending",
    )
    approvals_store.add_pending(write.session, pending)
    return pending
