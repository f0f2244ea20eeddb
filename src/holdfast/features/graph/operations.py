"""Operations: links, paths, lineage, graph export and entities."""

from typing import Annotated, Any, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict, replace

from holdfast.features.graph import entities, neighbourhood
from holdfast.features.graph import export as graph_export
from holdfast.features.graph import service as link_service
from holdfast.features.graph.store import Edge, LinkFilter
from holdfast.features.memories import find_memories
from holdfast.features.memories.operations.core import parse_time
from holdfast.features.memories.views import LinkView, format_time, link_view, value_or_unset
from holdfast.features.reflections.operations.invalidations import notified_or_unset
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.link import Relation
from holdfast.kernel.registry.fields import Actor, AgentId, Content, Id, Limit, Metadata, Namespace, Skip, Timestamp
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import format_timestamp

Source = Annotated[Id, Meta(description="Source memory: an id, or an unambiguous prefix.")]
Target = Annotated[Id, Meta(description="Target memory: an id, or an unambiguous prefix.")]
From = Annotated[Source, Meta(extra={"argument": False})]
To = Annotated[Target, Meta(extra={"argument": False})]
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
    family="graph",
    stage="link",
    status=201,
    examples=(
        Example({"source_id": "no-such-memory", "target_id": "nor-this-one"}, error="NOT_FOUND"),
        Example({"source_id": "itself", "target_id": "itself"}, error="VALIDATION_FAILED"),
        Example({"source_id": "one", "target_id": "other", "relation": "likes"}, error="VALIDATION_FAILED"),
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
    family="graph",
    examples=(Example({"id": "no-such-memory"}, error="NOT_FOUND"),),
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
    valid_until: str | UnsetType
    previous_valid_until: str | UnsetType = UNSET
    invalidation_notified: list[str] | UnsetType = UNSET
    """Ids of dependents that were flagged stale, as far as you may see them."""


@operation(
    Effect.WRITE,
    "POST /api/v1/kg/invalidate",
    family="graph",
    stage="link",
    cli=("unlink",),
    examples=(
        Example({"source_id": "no-such-memory", "target_id": "nor-this", "relation": "related_to"}, error="NOT_FOUND"),
        Example({"source_id": "one", "target_id": "other"}, error="VALIDATION_FAILED"),
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
    source_id: From
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
    valid_from: str
    observed_by: str
    title: str
    target_namespace: str
    valid_until: str | UnsetType = UNSET


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
    family="graph",
    human="holdfast.features.graph.render:render_traversal",
    examples=(
        Example({"source_id": "no-such-memory", "max_depth": 2}, error="NOT_FOUND"),
        Example({"source_id": "any", "max_depth": 6}, error="VALIDATION_FAILED"),
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


class KgTimeline(Request, frozen=True):
    source_id: From
    since: Annotated[Timestamp, Meta(description="Only links that started at this time or later.")] | None = None
    until: Annotated[Timestamp, Meta(description="Only links that started at this time or earlier.")] | None = None
    valid_at: ValidAt | None = None
    limit: Limit = 200


class Timeline(Struct, frozen=True, kw_only=True):
    source_id: str
    events: list[TargetView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/kg/timeline",
    family="graph",
    examples=(
        Example({"source_id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"source_id": "any", "since": "yesterday"}, error="VALIDATION_FAILED"),
    ),
)
def kg_timeline(ctx: Context, request: KgTimeline) -> Timeline:
    """List the outgoing links of a memory by start date."""
    since, until = parse_time(request.since, "since"), parse_time(request.until, "until")
    valid_at = parse_time(request.valid_at, "valid_at")
    with ctx.reading() as session:
        source, edges = link_service.list_timeline(
            ctx, session, request.source_id, since=since, until=until, valid_at=valid_at, limit=request.limit
        )
    return Timeline(source_id=source.id, events=[target_view(edge, TargetView) for edge in edges], count=len(edges))


class FindPaths(Request, frozen=True):
    source_id: From
    target_id: To
    max_depth: Annotated[int, Meta(ge=1, le=7, description="Maximum length of a path, in links.")] = 4
    max_results: Annotated[int, Meta(ge=1, le=50, description="Maximum number of paths.")] = 10
    include_invalidated: IncludeEnded = False
    valid_at: ValidAtOrNow | None = None


class FindPathsResult(Struct, frozen=True, kw_only=True):
    source_id: str
    target_id: str
    paths: list[tuple[str, ...]]
    count: int
    truncated: bool
    """Whether the search hit a limit: there may be more."""


@operation(
    Effect.READ,
    "POST /api/v1/kg/find_paths",
    family="graph",
    human="holdfast.features.graph.render:render_paths",
    examples=(
        Example({"source_id": "no-such-memory", "target_id": "nor-this-one"}, error="NOT_FOUND"),
        Example({"source_id": "one", "target_id": "other", "max_depth": 8}, error="VALIDATION_FAILED"),
    ),
)
def find_paths(ctx: Context, request: FindPaths) -> FindPathsResult:
    """Find the shortest paths between two memories."""
    valid_at = parse_time(request.valid_at, "valid_at")
    with ctx.reading() as session:
        found = link_service.find_paths(
            ctx,
            session,
            request.source_id,
            request.target_id,
            max_depth=request.max_depth,
            max_results=request.max_results,
            include_invalidated=request.include_invalidated,
            valid_at=valid_at,
        )
    return FindPathsResult(
        source_id=found.source.id,
        target_id=found.target.id,
        paths=found.paths,
        count=len(found.paths),
        truncated=found.truncated,
    )


class Lineage(Request, frozen=True):
    id: Id
    direction: Annotated[
        Literal["ancestors", "descendants"],
        Meta(description="ancestors: its sources; descendants: memories derived from it."),
    ] = "ancestors"
    max_depth: Annotated[int, Meta(ge=1, le=10, description="Maximum distance.")] = 5
    valid_at: ValidAtOrNow | None = None


class LineageNode(Struct, frozen=True, kw_only=True):
    id: str
    title: str | UnsetType = UNSET
    """Unset if the memory was deleted."""
    cid: str
    """A hash of its title and content: the same text, the same `cid`."""
    relation: str
    depth: int
    state: str


class LineageResult(Struct, frozen=True, kw_only=True):
    id: str
    direction: str
    nodes: list[LineageNode]
    count: int
    truncated: bool


@operation(
    Effect.READ,
    "GET /api/v1/memories/{id}/lineage",
    family="graph",
    human="holdfast.features.graph.render:render_lineage",
    examples=(
        Example({"id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"id": "any", "direction": "sideways"}, error="VALIDATION_FAILED"),
    ),
)
def lineage(ctx: Context, request: Lineage) -> LineageResult:
    """List the ancestors or descendants of a memory."""
    valid_at = parse_time(request.valid_at, "valid_at")
    with ctx.reading() as session:
        memory, found, truncated = link_service.trace_lineage(
            ctx, session, request.id, request.direction, max_depth=request.max_depth, valid_at=valid_at
        )
    nodes = [_lineage_node(edge, depth) for edge, depth in found]
    return LineageResult(id=memory.id, direction=request.direction, nodes=nodes, count=len(nodes), truncated=truncated)


def _lineage_node(edge: Edge, depth: int) -> LineageNode:
    return LineageNode(
        id=edge.id,
        title=UNSET if edge.state == "deleted" else edge.title,
        cid=edge.content_hash,
        relation=edge.link.relation,
        depth=depth,
        state=edge.state,
    )


class Graph(Request, frozen=True):
    id: Annotated[Id, Meta(description="Center memory; alternative to namespace.")] | None = None
    namespace: Annotated[Namespace, Meta(description="Linked memories of this namespace and below.")] | None = None
    max_depth: Annotated[int, Meta(ge=1, le=5, description="Maximum distance from the memory.")] = 2
    relations: Annotated[list[Relation], Meta(max_length=6, description="Only these relations.")] = []
    valid_at: ValidAtOrNow | None = None
    include_invalidated: IncludeEnded = False
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of memories.")] = 100
    format: Annotated[
        Literal["list", "json", "mermaid", "dot"],
        Meta(description="list or json: memories and links; mermaid or dot: diagram text."),
    ] = "list"


class NodeView(Struct, frozen=True):
    id: str
    title: str
    namespace: str
    kind: str


class GraphResult(Struct, frozen=True, kw_only=True):
    format: str
    count: int
    """Number of memories."""
    link_count: int
    truncated: bool
    """Whether memories or links were left out; a diagram notes it, too."""
    nodes: list[NodeView] | UnsetType = UNSET
    """Nearest first; unset for a diagram."""
    links: list[LinkView] | UnsetType = UNSET
    text: str | UnsetType = UNSET
    """The diagram."""


TRUNCATED_NOTE = "Truncated: raise limit, or narrow the query."


@operation(
    Effect.READ,
    "GET /api/v1/graph",
    family="graph",
    human="holdfast.features.graph.render:render_graph",
    examples=(
        Example({"namespace": "shop"}),
        Example({"namespace": "shop", "format": "json"}),
        Example({"namespace": "shop", "format": "mermaid"}),
        Example({"namespace": "shop", "format": "dot", "valid_at": "2026-11-01", "relations": ["supersedes"]}),
        Example({"id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"id": "any", "namespace": "shop"}, error="VALIDATION_FAILED"),
        Example({}, error="VALIDATION_FAILED"),
    ),
)
def graph(ctx: Context, request: Graph) -> GraphResult:
    """Show the graph around a memory or of a namespace, optionally as a diagram."""
    valid_at = parse_time(request.valid_at, "valid_at")
    which = LinkFilter(valid_at=valid_at, include_ended=request.include_invalidated, relations=tuple(request.relations))
    found = _read_subgraph(ctx, request, which)
    result = GraphResult(
        format=request.format, count=len(found.nodes), link_count=len(found.links), truncated=found.truncated
    )
    if request.format in ("mermaid", "dot"):
        return replace(result, text=_render_drawing(found, request.format, ctx.now() if valid_at is None else valid_at))
    nodes = [NodeView(*node) for node in found.nodes]
    return replace(result, nodes=nodes, links=[link_view(one) for one in found.links])


def _read_subgraph(ctx: Context, request: Graph, which: LinkFilter) -> neighbourhood.Subgraph:
    with ctx.reading() as session:
        match request.id, request.namespace:
            case str(id), None:
                return neighbourhood.find_subgraph(ctx, session, id, which, depth=request.max_depth, most=request.limit)
            case None, str(namespace):
                return neighbourhood.find_namespace_subgraph(ctx, session, namespace, which, most=request.limit)
    raise Invalid("id, namespace: give exactly one of them", fields=["id", "namespace"])


def _render_drawing(found: neighbourhood.Subgraph, format: str, at: int) -> str:
    """Render the diagram; links ended by `at` are dashed."""
    arrows = [
        graph_export.Arrow(one.source, one.target, one.relation, one.valid_until is not None and one.valid_until <= at)
        for one in found.links
    ]
    draw = graph_export.render_mermaid if format == "mermaid" else graph_export.render_dot
    return draw(found.nodes, arrows, TRUNCATED_NOTE if found.truncated else "")


class EntityRegister(Request, frozen=True):
    canonical_name: Annotated[Name, Meta(description="Its main name.")]
    namespace: Namespace
    aliases: Annotated[list[Name], Meta(max_length=100, description="Its other names.")] = []
    content: Annotated[Content, Meta(description="Description; default: its name.")] | None = None
    metadata: Metadata = {}
    agent_id: Actor | None = None


class EntityRegisterResult(Struct, frozen=True, kw_only=True):
    entity_id: str
    canonical_name: str
    namespace: str
    aliases: list[str]
    created: bool


@operation(
    Effect.WRITE,
    "POST /api/v1/entities",
    family="graph",
    stage="store",
    status=201,
    examples=(
        Example({"canonical_name": "Ada Lovelace", "namespace": "people", "aliases": ["Ada", "Countess Lovelace"]}),
        Example({"canonical_name": " ", "namespace": "people"}, error="VALIDATION_FAILED"),
    ),
)
def entity_register(ctx: Context, request: EntityRegister) -> EntityRegisterResult:
    """Register an entity with a main name and aliases."""
    (memory, aliases), created = entities.register_entity(
        ctx,
        request.canonical_name,
        request.namespace,
        request.aliases,
        content=request.content,
        metadata=request.metadata,
    )
    return EntityRegisterResult(
        entity_id=memory.id, canonical_name=memory.title, namespace=memory.namespace, aliases=aliases, created=created
    )


class EntityGetByAlias(Request, frozen=True):
    alias: Annotated[Name, Meta(description="Name or alias, case-insensitive.")]
    namespace: Namespace | None = None


class EntityResult(Struct, frozen=True, kw_only=True):
    found: bool
    entity_id: str | UnsetType = UNSET
    canonical_name: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET
    aliases: list[str] | UnsetType = UNSET
    also: list[str] | UnsetType = UNSET
    """Ids of other entities with that name."""


@operation(
    Effect.READ,
    "GET /api/v1/entities/by_alias",
    family="graph",
    examples=(Example({"alias": "nobody"}), Example({"alias": "  "}, error="VALIDATION_FAILED")),
)
def entity_get_by_alias(ctx: Context, request: EntityGetByAlias) -> EntityResult:
    """Find an entity by name or alias; the newest if several match."""
    with ctx.reading() as session:
        found = entities.find_entity(ctx, session, request.alias, request.namespace)
    if found is None:
        return EntityResult(found=False)
    memory, aliases = found.entity
    return EntityResult(
        found=True,
        entity_id=memory.id,
        canonical_name=memory.title,
        namespace=memory.namespace,
        aliases=aliases,
        also=value_or_unset([other.id for other in found.also] or None),
    )
