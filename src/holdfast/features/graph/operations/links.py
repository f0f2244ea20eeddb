"""Operations: links, and queries along them."""

from typing import Annotated, Any, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from holdfast.features.graph import service as link_service
from holdfast.features.graph.service import LinkView, link_view
from holdfast.features.graph.store import Edge, LinkFilter
from holdfast.features.memories import find_memories
from holdfast.features.reflections.list_stale import notified_or_unset
from holdfast.kernel.context import Context
from holdfast.kernel.records.link import Relation
from holdfast.kernel.registry.fields import AgentId, Id, Limit, Namespace, Skip, Timestamp
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import TimeText, format_time, format_timestamp, parse_time

Source = Annotated[Id, Meta(description="Source memory: an id, or an unambiguous prefix.")]
Target = Annotated[Id, Meta(description="Target memory: an id, or an unambiguous prefix.")]
RelationField = Annotated[
    Relation,
    Meta(
        description="supersedes: new to old; derived_from, derives_from, reflects_on: derived memory to source.",
        extra={"short": "r"},
    ),
]
ValidAt = Annotated[Timestamp, Meta(description="Only links valid at this time.")]
ValidAtOrNow = Annotated[Timestamp, Meta(description="Only links valid at this time; default: now.")]
IncludeEnded = Annotated[bool, Meta(description="Include invalidated links.")]
Name = Annotated[str, Meta(min_length=1, max_length=512)]


class Link(Request, frozen=True):
    source_id: Source
    target_id: Target
    relation: RelationField = "related_to"
    valid_from: Annotated[Timestamp, Meta(description="Start of validity; default: now.")] | None = None
    valid_until: Annotated[Timestamp, Meta(description="End of validity.")] | None = None


class LinkResult(LinkView, frozen=True, kw_only=True):
    linked: bool
    outcome: Literal["created", "revalidated", "unchanged"]
    invalidation_notified: list[str]
    """Ids of the target's dependents that were flagged stale, as far as you may see them."""


@operation(
    Effect.WRITE,
    "POST /api/v1/links",
    stage="link",
    status=201,
    examples=(
        Example({"source_id": "no-such-memory", "target_id": "nor-this-one"}, error="NOT_FOUND"),
        Example({"source_id": "itself", "target_id": "itself"}, error="VALIDATION_FAILED"),
        Example({"source_id": "one", "target_id": "other", "relation": "likes"}, error="VALIDATION_FAILED"),
        Example({"source_id": "1f3a9c20", "target_id": "8b2e41d7"}, prepared=True),
        Example({"source_id": "1f3a9c20", "target_id": "c05d6e93", "relation": "supersedes"}, prepared=True),
    ),
)
def link(ctx: Context, request: Link) -> LinkResult:
    """Create a typed, dated link between two memories."""
    created, outcome = link_service.create_link(
        ctx,
        request.source_id,
        request.target_id,
        request.relation,
        valid_from=parse_time(request.valid_from, "valid_from"),
        valid_until=parse_time(request.valid_until, "valid_until"),
    )
    flagged = notified_or_unset(ctx) or []
    return LinkResult(linked=True, outcome=outcome, invalidation_notified=flagged, **asdict(link_view(created)))


class GetLinks(Request, frozen=True):
    id: Id
    valid_at: ValidAt | None = None
    limit: Limit = 1000
    offset: Skip = 0


class LinkPage(Struct, frozen=True, kw_only=True):
    links: list[LinkView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/links/{id}",
    cli=("graph", "links"),
    aliases=("get-links",),
    examples=(Example({"id": "no-such-memory"}, error="NOT_FOUND"), Example({"id": "1f3a9c20"}, prepared=True)),
)
def get_links(ctx: Context, request: GetLinks) -> LinkPage:
    """List the links of a memory in both directions, including ended ones."""
    valid_at = parse_time(request.valid_at, "valid_at")
    with ctx.reading() as session:
        memory = find_memories.get(ctx, session, request.id)
        found = link_service.list_links(
            ctx, session, memory.id, valid_at=valid_at, limit=request.limit, skip=request.offset
        )
    return LinkPage(links=[link_view(one) for one in found], count=len(found))


class KgInvalidate(Request, frozen=True):
    source_id: Source
    target_id: Target
    relation: RelationField
    valid_until: Annotated[Timestamp, Meta(description="End of validity; default: now.")] | None = None


class InvalidateResult(Struct, frozen=True, kw_only=True):
    found: bool
    source_id: str
    target_id: str
    relation: str
    valid_until: TimeText | UnsetType
    previous_valid_until: TimeText | UnsetType = UNSET
    invalidation_notified: list[str] | UnsetType = UNSET
    """Ids of dependents that were flagged stale, as far as you may see them."""


@operation(
    Effect.WRITE,
    "POST /api/v1/kg/invalidate",
    cli=("graph", "unlink"),
    aliases=("unlink", "kg-invalidate"),
    stage="link",
    examples=(
        Example({"source_id": "no-such-memory", "target_id": "nor-this", "relation": "related_to"}, error="NOT_FOUND"),
        Example({"source_id": "one", "target_id": "other"}, error="VALIDATION_FAILED"),
        Example({"source_id": "c05d6e93", "target_id": "1f3a9c20", "relation": "related_to"}, prepared=True),
    ),
)
def kg_invalidate(ctx: Context, request: KgInvalidate) -> InvalidateResult:
    """End a link. It stays in history with its end date."""
    ended, before = link_service.invalidate_link(
        ctx, request.source_id, request.target_id, request.relation, parse_time(request.valid_until, "valid_until")
    )
    return InvalidateResult(
        found=True,
        source_id=ended.source,
        target_id=ended.target,
        relation=ended.relation,
        valid_until=format_time(ended.valid_until),
        previous_valid_until=format_time(before),
        invalidation_notified=notified_or_unset(ctx),
    )


class KgQuery(Request, frozen=True):
    source_id: Source
    max_depth: Annotated[int, Meta(ge=1, le=5, description="Maximum number of links to follow.")] = 1
    valid_at: ValidAtOrNow | None = None
    allowed_agents: (
        Annotated[
            list[AgentId], Meta(max_length=100, description="Only links created by these agents; an empty list: none.")
        ]
        | None
    ) = None
    namespace: Annotated[Namespace, Meta(description="Only memories of this namespace.")] | None = None
    relations: Annotated[list[Relation], Meta(max_length=6, description="Only these relations.")] = []
    limit: Limit = 200
    include_invalidated: IncludeEnded = False


class TargetView(Struct, frozen=True, kw_only=True):
    """A link and its target."""

    target_id: str
    relation: str
    valid_from: TimeText
    observed_by: str
    title: str
    target_namespace: str
    valid_until: TimeText | UnsetType = UNSET


V = TypeVar("V", bound=TargetView)


def target_view(edge: Edge, type: type[V], **more: Any) -> V:
    """Build the view of a link from its source, in a response type with more fields."""
    return type(
        target_id=edge.id,
        relation=edge.link.relation,
        valid_from=format_timestamp(edge.link.valid_from),
        observed_by=edge.link.agent,
        title=edge.title,
        target_namespace=edge.namespace,
        valid_until=format_time(edge.link.valid_until),
        **more,
    )


class ReachedMemory(TargetView, frozen=True, kw_only=True):
    depth: int
    path: str
    """Ids from the source to this memory, separated by `->`."""


class KgQueryResult(Struct, frozen=True, kw_only=True):
    source_id: str
    max_depth: int
    memories: list[ReachedMemory]
    paths: list[str]
    count: int
    truncated: bool
    """There are more than the limit."""


@operation(
    Effect.READ,
    "POST /api/v1/kg/query",
    cli=("graph", "query"),
    aliases=("kg-query",),
    human="holdfast.features.graph.render:render_traversal",
    examples=(
        Example({"source_id": "no-such-memory", "max_depth": 2}, error="NOT_FOUND"),
        Example({"source_id": "any", "max_depth": 6}, error="VALIDATION_FAILED"),
        Example({"source_id": "5e9d07fa"}, prepared=True),
        Example({"source_id": "5e9d07fa", "max_depth": 3, "relations": ["reflects_on", "derived_from"]}, prepared=True),
    ),
)
def kg_query(ctx: Context, request: KgQuery) -> KgQueryResult:
    """Follow outgoing links from a memory, up to a depth."""
    agents = request.allowed_agents
    which = LinkFilter(
        valid_at=parse_time(request.valid_at, "valid_at"),
        include_ended=request.include_invalidated,
        observers=None if agents is None else tuple(agents),
        relations=tuple(request.relations),
        namespace=request.namespace,
    )
    with ctx.reading() as session:
        source, steps, truncated = link_service.walk_links(
            ctx, session, request.source_id, which, max_depth=request.max_depth, limit=request.limit
        )
    views = [target_view(step.edge, ReachedMemory, depth=step.depth, path="->".join(step.path)) for step in steps]
    return KgQueryResult(
        source_id=source.id,
        max_depth=request.max_depth,
        memories=views,
        paths=[one.path for one in views],
        count=len(views),
        truncated=truncated,
    )
