"""Operations: paths, lineage and the export of a graph."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from holdfast.features.graph import export as graph_export
from holdfast.features.graph import neighbourhood
from holdfast.features.graph import service as link_service
from holdfast.features.graph.operations.links import IncludeEnded, Source, Target, ValidAtOrNow
from holdfast.features.graph.service import LinkView, link_view
from holdfast.features.graph.store import Edge, LinkFilter
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.link import Relation
from holdfast.kernel.registry.fields import Id, Namespace
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import parse_time


class FindPaths(Request, frozen=True):
    source_id: Source
    target_id: Target
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
    cli=("graph", "path"),
    aliases=("find-paths",),
    human="holdfast.features.graph.render:render_paths",
    examples=(
        Example({"source_id": "no-such-memory", "target_id": "nor-this-one"}, error="NOT_FOUND"),
        Example({"source_id": "one", "target_id": "other", "max_depth": 8}, error="VALIDATION_FAILED"),
        Example({"source_id": "5e9d07fa", "target_id": "8b2e41d7"}, prepared=True),
        Example({"source_id": "5e9d07fa", "target_id": "8b2e41d7", "max_depth": 2}, prepared=True),
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
    cli=("graph", "lineage"),
    aliases=("lineage",),
    human="holdfast.features.graph.render:render_lineage",
    examples=(
        Example({"id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"id": "any", "direction": "sideways"}, error="VALIDATION_FAILED"),
        Example({"id": "5e9d07fa"}, prepared=True),
        Example({"id": "1f3a9c20", "direction": "descendants"}, prepared=True),
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
    human="holdfast.features.graph.render:render_graph",
    examples=(
        Example({"namespace": "shop"}),
        Example({"namespace": "shop", "format": "json"}),
        Example({"namespace": "shop", "format": "mermaid"}),
        Example({"namespace": "shop", "format": "dot", "valid_at": "2026-11-01", "relations": ["supersedes"]}),
        Example({"id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"id": "any", "namespace": "shop"}, error="VALIDATION_FAILED"),
        Example({}, error="VALIDATION_FAILED"),
        Example({"id": "1f3a9c20"}, prepared=True),
        Example({"namespace": "shop", "format": "mermaid"}, prepared=True),
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
