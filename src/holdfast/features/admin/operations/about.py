"""Store statistics and server capabilities."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.admin.tool_sets import list_families, list_tools
from holdfast.features.embeddings import store as vectors
from holdfast.features.graph import store as links
from holdfast.features.memories import store as memories
from holdfast.features.memories.operations.lifecycle import NamespaceCount
from holdfast.features.memories.store import EVERYTHING
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal import journal
from holdfast.kernel.registry.operation import REGISTRY, Effect, EmptyRequest, Example, Operation, Request, operation
from holdfast.kernel.registry.words import order_enums
from holdfast.kernel.timestamps import SECOND
from holdfast.version import __version__

SOON_MICROSECONDS = 3600 * SECOND


class TierCount(Struct, frozen=True):
    tier: str
    count: int


class EmbeddingCount(Struct, frozen=True):
    model: str
    dim: int
    memories: int
    count: int
    stale: int


class Stats(Struct, frozen=True, kw_only=True):
    total: int
    by_tier: list[TierCount]
    by_namespace: list[NamespaceCount]
    archived_total: int
    expiring_soon: int
    links_count: int
    embeddings: list[EmbeddingCount]
    """Embeddings per model. A stale one belongs to an older version of its memory and is not used."""
    changes: int
    db_size_bytes: int
    restated: int
    """How often a duplicate was stored."""


@operation(
    Effect.READ, "GET /api/v1/stats", human="holdfast.features.admin.render:render_stats", examples=(Example({}),)
)
def stats(ctx: Context, request: EmptyRequest) -> Stats:
    """Count memories, links, embeddings and changes in the store."""
    with ctx.reading() as session:
        now, caller = ctx.now(), ctx.caller
        by_tier = memories.count_by(session, caller, EVERYTHING, now, "tier")
        by_namespace = memories.count_by(session, caller, EVERYTHING, now, "namespace")
        parts, params = memories.filter_clauses(caller, EVERYTHING, now)
        soon = session.select(("memory_count", *parts, "memory.expiring"), params | {"soon": now + SOON_MICROSECONDS})
        return Stats(
            total=sum(n for _, n in by_tier),
            by_tier=[TierCount(name, n) for name, n in by_tier],
            by_namespace=[NamespaceCount(name, n) for name, n in by_namespace],
            archived_total=memories.count(session, caller, EVERYTHING, now, view="archived"),
            expiring_soon=soon[0][0],
            links_count=links.count(session, caller),
            embeddings=[EmbeddingCount(*one) for one in vectors.count_by_model(session, caller, now)],
            changes=journal.get_head(session).seq,
            db_size_bytes=ctx.store.size(),
            restated=int(session.select(("duplicate_count_total", *parts), params)[0][0]),
        )


class Capabilities(Request, frozen=True):
    family: (
        Annotated[str, Meta(min_length=1, max_length=64, description="Only tools of this feature, such as recall.")]
        | None
    ) = None
    include_schema: Annotated[bool, Meta(description="Include the input schemas.")] = False


class ToolView(Struct, frozen=True, kw_only=True):
    name: str
    family: str
    effect: str
    summary: str
    callable_now: bool
    input_schema: dict[str, Any] | UnsetType = UNSET


class FamilyView(Struct, frozen=True, kw_only=True):
    name: str
    tool_count: int
    loaded: bool
    tools: list[str]


class FamilyList(Struct, frozen=True, kw_only=True):
    families: list[FamilyView]
    always_on: list[str]


class CapabilitiesResult(Struct, frozen=True, kw_only=True):
    schema_version: str
    service: str
    version: str
    summary: str
    tier: str
    features: dict[str, bool]
    tools: list[ToolView]
    families: FamilyList


@operation(
    Effect.READ,
    "GET /api/v1/capabilities",
    cli=("admin", "capabilities"),
    aliases=("capabilities",),
    opens_nothing=True,
    examples=(
        Example({"family": "core"}),
        Example({"family": "nonsense"}, error="VALIDATION_FAILED"),
        Example({"family": "recall"}, prepared=True),
    ),
)
def capabilities(ctx: Context, request: Capabilities) -> CapabilitiesResult:
    """List the features and tools of this server."""
    offered = [op for op in REGISTRY if "mcp" in op.surfaces]
    wanted = offered if request.family is None else _operations_of(request.family)
    return CapabilitiesResult(
        schema_version="3",
        service="holdfast",
        version=__version__,
        summary="Persistent memory: store what was learned, recall it by any of its words, see its whole history.",
        tier="keyword",
        features={
            "keyword_recall": True,
            "vector_recall": ctx.embedder is not None,
            "llm": ctx.model is not None,
            "history": True,
            "undo": True,
            "sync": False,
        },
        tools=[_tool_view(ctx, op, request.include_schema) for op in wanted],
        families=FamilyList(
            families=[_family_view(ctx, name) for name in list_families()], always_on=["memory_capabilities"]
        ),
    )


def _operations_of(family: str) -> list[Operation]:
    if family not in (known := list_families()):
        raise Invalid(f"family: must be one of {', '.join(known)}", fields=["family"])
    return [REGISTRY[name] for name in list_tools(family)]


def _is_loaded(ctx: Context, name: str) -> bool:
    return not ctx.offered or name in ctx.offered


def _tool_view(ctx: Context, op: Operation, with_schema: bool) -> ToolView:
    return ToolView(
        name=f"memory_{op.name}",
        family=op.family,
        effect=op.effect.value,
        summary=op.summary,
        callable_now=_is_loaded(ctx, op.name) and ctx.caller.has_right(op.right),
        input_schema=_request_schema(op.request) if with_schema else UNSET,
    )


def _request_schema(request: type[Request]) -> dict[str, Any]:
    schema = msgspec.json.schema(request)
    order_enums(schema["$defs"][request.__name__]["properties"], request)
    return schema


def _family_view(ctx: Context, family: str) -> FamilyView:
    names = list_tools(family)
    loaded = all(_is_loaded(ctx, name) for name in names)
    return FamilyView(name=family, tool_count=len(names), loaded=loaded, tools=[f"memory_{name}" for name in names])
