"""Operations: links, paths, lineage, graph export and entities."""

from typing import Annotated, Any, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict, replace

from holdfast.features.graph import entities as entity
from holdfast.features.graph import export as drawing
from holdfast.features.graph import neighbourhood as surroundings
from holdfast.features.graph import service as relate
from holdfast.features.graph.store import Edge, Which
from holdfast.features.memories import find_memories as find
from holdfast.features.memories.operations.core import moment
from holdfast.features.memories.views import LinkView, known, link_view, text
from holdfast.features.reflections.operations.invalidations import notified
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.link import Relation
from holdfast.kernel.registry.fields import Actor, AgentId, Content, Id, Limit, Metadata, Moment, Namespace, Skip
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import to_text

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
ValidAt = Annotated[Moment, Meta(description="Only links valid at this time.")]
ValidAtOrNow = Annotated[Moment, Meta(description="Only links valid at this time; default: now.")]
EndedToo = Annotated[bool, Meta(description="Include invalidated links.")]
Name = Annotated[str, Meta(min_length=1, max_length=512)]


class Link(Request, frozen=True):
    source_id: Source
    target_id: Target
    relation: RelationField = "related_to"
    valid_from: Annotated[Moment, Meta(description="Start of validity; default: now.")] | None = None
    valid_until: Annotated[Moment, Meta(description="End of validity.")] | None = None


class Linked(LinkView, frozen=True, kw_only=True):
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
def link(hold: Hold, request: Link) -> Linked:
    """Create a typed, dated link between two memories."""
    created, outcome = relate.link(
        hold,
        request.source_id,
        request.target_id,
        request.relation,
        valid_from=moment(request.valid_from, "valid_from"),
        valid_until=moment(request.valid_until, "valid_until"),
    )
    flagged = notified(hold) or []
    return Linked(linked=True, outcome=outcome, invalidation_notified=flagged, **asdict(link_view(created)))


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
def get_links(hold: Hold, request: GetLinks) -> LinkPage:
    """List the links of a memory in both directions, including ended ones."""
    valid_at = moment(request.valid_at, "valid_at")
    with hold.reading() as session:
        memory = find.get(hold, session, request.id)
        found = relate.links_of(hold, session, memory.id, valid_at=valid_at, limit=request.limit, skip=request.offset)
    return LinkPage(links=[link_view(one) for one in found], count=len(found))


class KgInvalidate(Request, frozen=True):
    source_id: Source
    target_id: Target
    relation: RelationField
    valid_until: Annotated[Moment, Meta(description="End of validity; default: now.")] | None = None


class Invalidated(Struct, frozen=True, kw_only=True):
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
def kg_invalidate(hold: Hold, request: KgInvalidate) -> Invalidated:
    """End a link. It stays in history with its end date."""
    ended, before = relate.invalidate(
        hold, request.source_id, request.target_id, request.relation, moment(request.valid_until, "valid_until")
    )
    return Invalidated(
        found=True,
        source_id=ended.source,
        target_id=ended.target,
        relation=ended.relation,
        valid_until=text(ended.valid_until),
        previous_valid_until=text(before),
        invalidation_notified=notified(hold),
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
    include_invalidated: EndedToo = False


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
        valid_from=to_text(edge.link.valid_from),
        observed_by=edge.link.agent,
        title=edge.title,
        target_namespace=edge.namespace,
        valid_until=text(edge.link.valid_until),
        **more,
    )


class Reached(TargetView, frozen=True, kw_only=True):
    depth: int
    path: str
    """Ids from the source to this memory, separated by `->`."""


class KgFound(Struct, frozen=True, kw_only=True):
    source_id: str
    max_depth: int
    memories: list[Reached]
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
def kg_query(hold: Hold, request: KgQuery) -> KgFound:
    """Follow outgoing links from a memory, up to a depth."""
    agents = request.allowed_agents
    which = Which(
        valid_at=moment(request.valid_at, "valid_at"),
        ended_too=request.include_invalidated,
        observers=None if agents is None else tuple(agents),
        relations=tuple(request.relations),
        namespace=request.namespace,
    )
    with hold.reading() as session:
        source, steps, truncated = relate.walk(
            hold, session, request.source_id, which, max_depth=request.max_depth, limit=request.limit
        )
    views = [target_view(step.edge, Reached, depth=step.depth, path="->".join(step.path)) for step in steps]
    return KgFound(
        source_id=source.id,
        max_depth=request.max_depth,
        memories=views,
        paths=[one.path for one in views],
        count=len(views),
        truncated=truncated,
    )


class KgTimeline(Request, frozen=True):
    source_id: From
    since: Annotated[Moment, Meta(description="Only links that started at this time or later.")] | None = None
    until: Annotated[Moment, Meta(description="Only links that started at this time or earlier.")] | None = None
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
def kg_timeline(hold: Hold, request: KgTimeline) -> Timeline:
    """List the outgoing links of a memory by start date."""
    since, until = moment(request.since, "since"), moment(request.until, "until")
    valid_at = moment(request.valid_at, "valid_at")
    with hold.reading() as session:
        source, edges = relate.timeline(
            hold, session, request.source_id, since=since, until=until, valid_at=valid_at, limit=request.limit
        )
    return Timeline(source_id=source.id, events=[target_view(edge, TargetView) for edge in edges], count=len(edges))


class FindPaths(Request, frozen=True):
    source_id: From
    target_id: To
    max_depth: Annotated[int, Meta(ge=1, le=7, description="Maximum length of a path, in links.")] = 4
    max_results: Annotated[int, Meta(ge=1, le=50, description="Maximum number of paths.")] = 10
    include_invalidated: EndedToo = False
    valid_at: ValidAtOrNow | None = None


class PathsFound(Struct, frozen=True, kw_only=True):
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
def find_paths(hold: Hold, request: FindPaths) -> PathsFound:
    """Find the shortest paths between two memories."""
    valid_at = moment(request.valid_at, "valid_at")
    with hold.reading() as session:
        found = relate.find_paths(
            hold,
            session,
            request.source_id,
            request.target_id,
            max_depth=request.max_depth,
            max_results=request.max_results,
            include_invalidated=request.include_invalidated,
            valid_at=valid_at,
        )
    return PathsFound(
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


class LineageFound(Struct, frozen=True, kw_only=True):
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
def lineage(hold: Hold, request: Lineage) -> LineageFound:
    """List the ancestors or descendants of a memory."""
    valid_at = moment(request.valid_at, "valid_at")
    with hold.reading() as session:
        memory, found, truncated = relate.lineage(
            hold, session, request.id, request.direction, max_depth=request.max_depth, valid_at=valid_at
        )
    nodes = [_in_lineage(edge, depth) for edge, depth in found]
    return LineageFound(id=memory.id, direction=request.direction, nodes=nodes, count=len(nodes), truncated=truncated)


def _in_lineage(edge: Edge, depth: int) -> LineageNode:
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
    include_invalidated: EndedToo = False
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


class Drawn(Struct, frozen=True, kw_only=True):
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


MORE = "Truncated: raise limit, or narrow the query."


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
def graph(hold: Hold, request: Graph) -> Drawn:
    """Show the graph around a memory or of a namespace, optionally as a diagram."""
    valid_at = moment(request.valid_at, "valid_at")
    which = Which(valid_at=valid_at, ended_too=request.include_invalidated, relations=tuple(request.relations))
    found = _surroundings(hold, request, which)
    result = Drawn(
        format=request.format, count=len(found.nodes), link_count=len(found.links), truncated=found.truncated
    )
    if request.format in ("mermaid", "dot"):
        return replace(result, text=_drawing(found, request.format, hold.now() if valid_at is None else valid_at))
    nodes = [NodeView(*node) for node in found.nodes]
    return replace(result, nodes=nodes, links=[link_view(one) for one in found.links])


def _surroundings(hold: Hold, request: Graph, which: Which) -> surroundings.Surroundings:
    with hold.reading() as session:
        match request.id, request.namespace:
            case str(id), None:
                return surroundings.around(hold, session, id, which, depth=request.max_depth, most=request.limit)
            case None, str(namespace):
                return surroundings.within(hold, session, namespace, which, most=request.limit)
    raise Invalid("id, namespace: give exactly one of them", fields=["id", "namespace"])


def _drawing(found: surroundings.Surroundings, format: str, at: int) -> str:
    """Render the diagram; links ended by `at` are dashed."""
    arrows = [
        drawing.Arrow(one.source, one.target, one.relation, one.valid_until is not None and one.valid_until <= at)
        for one in found.links
    ]
    draw = drawing.mermaid if format == "mermaid" else drawing.dot
    return draw(found.nodes, arrows, MORE if found.truncated else "")


class EntityRegister(Request, frozen=True):
    canonical_name: Annotated[Name, Meta(description="Its main name.")]
    namespace: Namespace
    aliases: Annotated[list[Name], Meta(max_length=100, description="Its other names.")] = []
    content: Annotated[Content, Meta(description="Description; default: its name.")] | None = None
    metadata: Metadata = {}
    agent_id: Actor | None = None


class EntityRegistered(Struct, frozen=True, kw_only=True):
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
def entity_register(hold: Hold, request: EntityRegister) -> EntityRegistered:
    """Register an entity with a main name and aliases."""
    (memory, aliases), created = entity.register(
        hold,
        request.canonical_name,
        request.namespace,
        request.aliases,
        content=request.content,
        metadata=request.metadata,
    )
    return EntityRegistered(
        entity_id=memory.id, canonical_name=memory.title, namespace=memory.namespace, aliases=aliases, created=created
    )


class EntityGetByAlias(Request, frozen=True):
    alias: Annotated[Name, Meta(description="Name or alias, case-insensitive.")]
    namespace: Namespace | None = None


class EntityFound(Struct, frozen=True, kw_only=True):
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
def entity_get_by_alias(hold: Hold, request: EntityGetByAlias) -> EntityFound:
    """Find an entity by name or alias; the newest if several match."""
    with hold.reading() as session:
        found = entity.named(hold, session, request.alias, request.namespace)
    if found is None:
        return EntityFound(found=False)
    memory, aliases = found.entity
    return EntityFound(
        found=True,
        entity_id=memory.id,
        canonical_name=memory.title,
        namespace=memory.namespace,
        aliases=aliases,
        also=known([other.id for other in found.also] or None),
    )
