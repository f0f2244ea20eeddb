"""The `list` and `search` operations."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.memories import find_memories
from holdfast.features.memories.store import build_filter
from holdfast.features.memories.views import MemoryView, memory_views
from holdfast.features.reflections import invalidation_store as invalidations
from holdfast.features.reflections import list_stale
from holdfast.features.reflections.operations.invalidations import to_memory_view
from holdfast.kernel.context import Context
from holdfast.kernel.records.memory import Kind
from holdfast.kernel.registry.fields import (
    AgentId,
    AsAgent,
    Limit,
    Namespace,
    Priority,
    Skip,
    SourceUri,
    StoredSince,
    StoredUntil,
    Tags,
    TierField,
)
from holdfast.kernel.registry.operation import Effect, Example, Request, operation


class Browse(Request, frozen=True):
    namespace: Namespace | None = None
    tier: TierField | None = None
    agent_id: Annotated[AgentId, Meta(description="Only those of this agent.")] | None = None
    min_priority: Priority | None = None
    since: StoredSince | None = None
    until: StoredUntil | None = None
    tags: Tags = []
    kinds: Annotated[list[Kind], Meta(max_length=14, description="Only these kinds.", extra={"not_on": ("mcp",)})] = []
    limit: Limit = 20
    offset: Skip = 0


class Page(Struct, frozen=True, kw_only=True):
    memories: list[MemoryView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/memories",
    name="list",
    human="holdfast.features.memories.render:render_memories",
    examples=(
        Example({"limit": 5}),
        Example({"kinds": ["reflection"]}),
        Example({"limit": 0}, error="VALIDATION_FAILED"),
        Example({"kinds": ["guess"]}, error="VALIDATION_FAILED"),
        Example({"namespace": "shop", "limit": 5}, prepared=True),
        Example({"tags": ["ops"]}, prepared=True),
    ),
)
def browse(ctx: Context, request: Browse) -> Page:
    """List memories, most important first."""
    if (place := list_stale.parse_view_namespace(request.namespace)) is not None:
        return list_invalidations(ctx, place, request)
    which = build_filter(request)
    with ctx.reading() as session:
        found = find_memories.browse(ctx, session, which, limit=request.limit, skip=request.offset)
        views = memory_views(session, found)
    return Page(memories=views, count=len(views))


def list_invalidations(ctx: Context, place: str, request: Browse) -> Page:
    """List the notices of `<namespace>/_invalidations` as memory views, though none is a memory."""
    which = invalidations.InvalidationFilter(namespace=place)
    with ctx.reading() as session:
        found, _ = list_stale.list_notices(ctx, session, which, limit=request.limit, skip=request.offset)
    return Page(memories=[to_memory_view(one) for one in found], count=len(found))


class Search(Request, frozen=True):
    query: (
        Annotated[
            str,
            Meta(
                max_length=65_536, description="Words that must all match.", extra={"argument": True, "role": "words"}
            ),
        ]
        | None
    ) = None
    namespace: Namespace | None = None
    tier: TierField | None = None
    agent_id: Annotated[AgentId, Meta(description="Only those of this agent.")] | None = None
    as_agent: AsAgent | None = None
    min_priority: Priority | None = None
    since: StoredSince | None = None
    until: StoredUntil | None = None
    tags: Tags = []
    source_uri: SourceUri | None = None
    include_archived: Annotated[bool, Meta(description="Include archived and expired memories.")] = False
    limit: Limit = 20


class SearchResult(Struct, frozen=True, kw_only=True):
    results: list[MemoryView]
    count: int
    query: str | UnsetType = UNSET
    source_uri: str | UnsetType = UNSET


@operation(
    Effect.READ,
    "GET /api/v1/search",
    stage="recall",
    at_least_one=("query", "source_uri"),
    human="holdfast.features.memories.render:render_search",
    examples=(
        Example({"query": "deploy tuesdays"}),
        Example({}, error="FILTER_REQUIRED"),
        Example({"query": "deploy tuesdays"}, prepared=True),
        Example({"query": "deploy", "namespace": "shop", "limit": 5}, prepared=True),
    ),
)
def search(ctx: Context, request: Search) -> SearchResult:
    """Search memories by keywords (all words must match)."""
    which = build_filter(request)
    with ctx.reading() as session:
        found = find_memories.search(ctx, session, request.query, which, limit=request.limit)
        views = memory_views(session, found)
    return SearchResult(
        results=views,
        count=len(views),
        query=UNSET if request.query is None else request.query,
        source_uri=UNSET if request.source_uri is None else request.source_uri,
    )
