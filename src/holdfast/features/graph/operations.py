"""Links between memories, the ways they make, and entities by their names."""

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

Source = Annotated[Id, Meta(description="Where it starts: an id, or an unambiguous beginning of one.")]
Target = Annotated[Id, Meta(description="Where it leads: an id, or an unambiguous beginning of one.")]
From = Annotated[Source, Meta(extra={"argument": False})]
To = Annotated[Target, Meta(extra={"argument": False})]
RelationField = Annotated[
    Relation,
    Meta(
        description="supersedes: new to old; derived_from, derives_from, reflects_on: made to what it was made of.",
        extra={"short": "r"},
    ),
]
ValidAt = Annotated[Moment, Meta(description="Links that held then.")]
ValidAtOrNow = Annotated[Moment, Meta(description="Links that held then; now, unless told.")]
EndedToo = Annotated[bool, Meta(description="Links that were invalidated too.")]
Name = Annotated[str, Meta(min_length=1, max_length=512)]


class Link(Request, frozen=True):
    source_id: Source
    target_id: Target
    relation: RelationField = "related_to"
    valid_from: Annotated[Moment, Meta(description="Since when it holds; now, unless told.")] | None = None
    valid_until: Annotated[Moment, Meta(description="Until when it holds.")] | None = None


class Linked(LinkView, frozen=True, kw_only=True):
    linked: bool
    outcome: Literal["created", "revalidated", "unchanged"]
    invalidation_notified: list[str]
    """What stands on the target and was told, as far as you may see it."""


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
    """Point from one memory to another, saying how they relate and since when."""
    made, outcome = relate.link(
        hold,
        request.source_id,
        request.target_id,
        request.relation,
        valid_from=moment(request.valid_from, "valid_from"),
        valid_until=moment(request.valid_until, "valid_until"),
    )
    told = notified(hold) or []
    return Linked(linked=True, outcome=outcome, invalidation_notified=told, **asdict(link_view(made)))


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
    """Show the links of a memory, both ways: those that ended too, or those that held at some time."""
    valid_at = moment(request.valid_at, "valid_at")
    with hold.reading() as session:
        memory = find.get(hold, session, request.id)
        found = relate.links_of(hold, session, memory.id, valid_at=valid_at, limit=request.limit, skip=request.offset)
    return LinkPage(links=[link_view(one) for one in found], count=len(found))


class KgInvalidate(Request, frozen=True):
    source_id: Source
    target_id: Target
    relation: RelationField
    valid_until: Annotated[Moment, Meta(description="Until when it held; now, unless told.")] | None = None


class Invalidated(Struct, frozen=True, kw_only=True):
    found: bool
    source_id: str
    target_id: str
    relation: str
    valid_until: str | UnsetType
    previous_valid_until: str | UnsetType = UNSET
    invalidation_notified: list[str] | UnsetType = UNSET
    """What lost its ground and was told, as far as you may see it."""


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
    """Say that a link holds no more. It stays on record with its end."""
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
    max_depth: Annotated[int, Meta(ge=1, le=5, description="How many links away.")] = 1
    valid_at: ValidAtOrNow | None = None
    allowed_agents: (
        Annotated[
            list[AgentId], Meta(max_length=100, description="Only links observed by one of these; an empty list: none.")
        ]
        | None
    ) = None
    namespace: Annotated[Namespace, Meta(description="Only through memories of this namespace.")] | None = None
    relations: Annotated[list[Relation], Meta(max_length=6, description="Only along these.")] = []
    limit: Limit = 200
    include_invalidated: EndedToo = False


class TargetView(Struct, frozen=True, kw_only=True):
    """A link, and the memory that it leads to."""

    target_id: str
    relation: str
    valid_from: str
    observed_by: str
    title: str
    target_namespace: str
    valid_until: str | UnsetType = UNSET


V = TypeVar("V", bound=TargetView)


def target_view(edge: Edge, type: type[V], **more: Any) -> V:
    """A link as it is shown from its source, in an answer type that may say more."""
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
    """Ids from the source to here, with `->` between them."""


class KgFound(Struct, frozen=True, kw_only=True):
    source_id: str
    max_depth: int
    memories: list[Reached]
    paths: list[str]
    count: int
    truncated: bool
    """There are more than were asked for."""


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
    """Follow links outward from a memory: what it leads to, how, and how far away."""
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
    reached = [target_view(step.edge, Reached, depth=step.depth, path="->".join(step.path)) for step in steps]
    return KgFound(
        source_id=source.id,
        max_depth=request.max_depth,
        memories=reached,
        paths=[one.path for one in reached],
        count=len(reached),
        truncated=truncated,
    )


class KgTimeline(Request, frozen=True):
    source_id: From
    since: Annotated[Moment, Meta(description="Links that began then or later.")] | None = None
    until: Annotated[Moment, Meta(description="Links that began then or before.")] | None = None
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
    """Tell what a memory pointed to, in the order in which it began to."""
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
    max_depth: Annotated[int, Meta(ge=1, le=7, description="At most this many links long.")] = 4
    max_results: Annotated[int, Meta(ge=1, le=50, description="At most this many paths.")] = 10
    include_invalidated: EndedToo = False
    valid_at: ValidAtOrNow | None = None


class PathsFound(Struct, frozen=True, kw_only=True):
    source_id: str
    target_id: str
    paths: list[tuple[str, ...]]
    count: int
    truncated: bool
    """Whether the search was cut short, so that there may be more."""


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
    """Find how two memories hang together: the shortest ways along links in either direction."""
    valid_at = moment(request.valid_at, "valid_at")
    with hold.reading() as session:
        ways = relate.find_paths(
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
        source_id=ways.source.id,
        target_id=ways.target.id,
        paths=ways.paths,
        count=len(ways.paths),
        truncated=ways.truncated,
    )


class Lineage(Request, frozen=True):
    id: Id
    direction: Annotated[
        Literal["ancestors", "descendants"], Meta(description="What it was made of, or what was made of it.")
    ] = "ancestors"
    max_depth: Annotated[int, Meta(ge=1, le=10, description="How many steps away.")] = 5
    valid_at: ValidAtOrNow | None = None


class LineageNode(Struct, frozen=True, kw_only=True):
    id: str
    title: str | UnsetType = UNSET
    """Unless it was deleted."""
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
    """Trace what a memory was derived from, or what was derived from it."""
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
    id: Annotated[Id, Meta(description="The memory in the middle; or name a namespace.")] | None = None
    namespace: Annotated[Namespace, Meta(description="Linked memories of this and what lies below it.")] | None = None
    max_depth: Annotated[int, Meta(ge=1, le=5, description="How many links away from the memory.")] = 2
    relations: Annotated[list[Relation], Meta(max_length=6, description="Only along these.")] = []
    valid_at: ValidAtOrNow | None = None
    include_invalidated: EndedToo = False
    limit: Annotated[int, Meta(ge=1, le=1000, description="At most this many memories.")] = 100
    format: Annotated[
        Literal["list", "json", "mermaid", "dot"], Meta(description="list, json: memories and links; else a drawing.")
    ] = "list"


class NodeView(Struct, frozen=True):
    id: str
    title: str
    namespace: str
    kind: str


class Drawn(Struct, frozen=True, kw_only=True):
    format: str
    count: int
    """Memories."""
    link_count: int
    truncated: bool
    """Whether there are more than are shown; a drawing says so too."""
    nodes: list[NodeView] | UnsetType = UNSET
    """The nearest first; none if a drawing was asked for."""
    links: list[LinkView] | UnsetType = UNSET
    text: str | UnsetType = UNSET
    """The drawing."""


MORE = "There is more than is shown: raise limit, or ask for less."


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
    """Show what hangs together with a memory, or within a namespace, as a list or as a drawing."""
    valid_at = moment(request.valid_at, "valid_at")
    which = Which(valid_at=valid_at, ended_too=request.include_invalidated, relations=tuple(request.relations))
    found = _surroundings(hold, request, which)
    drawn = Drawn(format=request.format, count=len(found.nodes), link_count=len(found.links), truncated=found.truncated)
    if request.format in ("mermaid", "dot"):
        return replace(drawn, text=_drawing(found, request.format, hold.now() if valid_at is None else valid_at))
    nodes = [NodeView(*node) for node in found.nodes]
    return replace(drawn, nodes=nodes, links=[link_view(one) for one in found.links])


def _surroundings(hold: Hold, request: Graph, which: Which) -> surroundings.Surroundings:
    with hold.reading() as session:
        match request.id, request.namespace:
            case str(id), None:
                return surroundings.around(hold, session, id, which, depth=request.max_depth, most=request.limit)
            case None, str(namespace):
                return surroundings.within(hold, session, namespace, which, most=request.limit)
    raise Invalid("id, namespace: name one of them", fields=["id", "namespace"])


def _drawing(found: surroundings.Surroundings, format: str, at: int) -> str:
    """As text that others draw; a link that was over at a moment is a broken line."""
    arrows = [
        drawing.Arrow(one.source, one.target, one.relation, one.valid_until is not None and one.valid_until <= at)
        for one in found.links
    ]
    draw = drawing.mermaid if format == "mermaid" else drawing.dot
    return draw(found.nodes, arrows, MORE if found.truncated else "")


class EntityRegister(Request, frozen=True):
    canonical_name: Annotated[Name, Meta(description="The name it goes by.")]
    namespace: Namespace
    aliases: Annotated[list[Name], Meta(max_length=100, description="Its other names.")] = []
    content: Annotated[Content, Meta(description="What it is; its name, unless told.")] | None = None
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
    """Register somebody or something under one name, with its other names."""
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
    alias: Annotated[Name, Meta(description="Any of its names; case does not count.")]
    namespace: Namespace | None = None


class EntityFound(Struct, frozen=True, kw_only=True):
    found: bool
    entity_id: str | UnsetType = UNSET
    canonical_name: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET
    aliases: list[str] | UnsetType = UNSET
    also: list[str] | UnsetType = UNSET
    """Ids of other entities of that name."""


@operation(
    Effect.READ,
    "GET /api/v1/entities/by_alias",
    family="graph",
    examples=(Example({"alias": "nobody"}), Example({"alias": "  "}, error="VALIDATION_FAILED")),
)
def entity_get_by_alias(hold: Hold, request: EntityGetByAlias) -> EntityFound:
    """Find an entity by any of its names; of several, the newest."""
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
