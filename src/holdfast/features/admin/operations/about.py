"""Store statistics and server capabilities."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.embeddings import store as vectors
from holdfast.features.graph import store as links
from holdfast.features.memories import store as memories
from holdfast.features.memories.operations.lifecycle import NamespaceCount
from holdfast.features.memories.store import EVERYTHING
from holdfast.kernel.context import Hold
from holdfast.kernel.journal import journal
from holdfast.kernel.registry.operation import (
    FAMILIES,
    REGISTRY,
    Effect,
    Example,
    Nothing,
    Operation,
    Request,
    operation,
    order_enums,
)
from holdfast.kernel.timestamps import SECOND
from holdfast.version import __version__

SOON = 3600 * SECOND


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
    Effect.READ,
    "GET /api/v1/stats",
    family="meta",
    human="holdfast.features.admin.render:render_stats",
    examples=(Example({}),),
)
def stats(hold: Hold, request: Nothing) -> Stats:
    """Count memories, links, embeddings and changes in the store."""
    with hold.reading() as session:
        now, caller = hold.now(), hold.caller
        by_tier = memories.counts(session, caller, EVERYTHING, now, "tier")
        by_namespace = memories.counts(session, caller, EVERYTHING, now, "namespace")
        parts, params = memories.narrowed(caller, EVERYTHING, now)
        soon = session.assembled(("memory_count", *parts, "memory.expiring"), params | {"soon": now + SOON})
        return Stats(
            total=sum(n for _, n in by_tier),
            by_tier=[TierCount(name, n) for name, n in by_tier],
            by_namespace=[NamespaceCount(name, n) for name, n in by_namespace],
            archived_total=memories.count(session, caller, EVERYTHING, now, view="archived"),
            expiring_soon=soon[0][0],
            links_count=links.count(session, caller),
            embeddings=[EmbeddingCount(*one) for one in vectors.counts(session, caller, now)],
            changes=journal.head_of(session).seq,
            db_size_bytes=hold.store.size(),
            restated=int(session.assembled(("restated_total", *parts), params)[0][0]),
        )


class Capabilities(Request, frozen=True):
    family: (
        Annotated[
            Literal["core", "lifecycle", "graph", "governance", "power", "meta", "archive", "other"],
            Meta(description="Only tools of this family."),
        ]
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


class Families(Struct, frozen=True, kw_only=True):
    families: list[FamilyView]
    always_on: list[str]


class Abilities(Struct, frozen=True, kw_only=True):
    schema_version: str
    service: str
    version: str
    summary: str
    tier: str
    features: dict[str, bool]
    tools: list[ToolView]
    families: Families


@operation(
    Effect.READ,
    "GET /api/v1/capabilities",
    family="meta",
    opens_nothing=True,
    examples=(Example({"family": "core"}), Example({"family": "nonsense"}, error="VALIDATION_FAILED")),
)
def capabilities(hold: Hold, request: Capabilities) -> Abilities:
    """List the features and tools of this server."""
    offered = [op for op in REGISTRY if "mcp" in op.surfaces]
    wanted = [op for op in offered if request.family in (None, op.family)]
    return Abilities(
        schema_version="3",
        service="holdfast",
        version=__version__,
        summary="Persistent memory: store what was learned, recall it by any of its words, see its whole history.",
        tier="keyword",
        features={
            "keyword_recall": True,
            "vector_recall": hold.embedder is not None,
            "llm": hold.model is not None,
            "history": True,
            "undo": True,
            "sync": False,
        },
        tools=[_tool(hold, op, request.include_schema) for op in wanted],
        families=Families(
            families=[_family(hold, name, offered) for name in FAMILIES], always_on=["memory_capabilities"]
        ),
    )


def _loaded(hold: Hold, op: Operation) -> bool:
    return not hold.families or op.family in hold.families or op.name == "capabilities"


def _tool(hold: Hold, op: Operation, with_schema: bool) -> ToolView:
    return ToolView(
        name=f"memory_{op.name}",
        family=op.family,
        effect=op.effect.value,
        summary=op.summary,
        callable_now=_loaded(hold, op) and hold.caller.may(op.right),
        input_schema=_schema(op.request) if with_schema else UNSET,
    )


def _schema(request: type[Request]) -> dict[str, Any]:
    schema = msgspec.json.schema(request)
    order_enums(schema["$defs"][request.__name__]["properties"], request)
    return schema


def _family(hold: Hold, name: str, offered: list[Operation]) -> FamilyView:
    tools = [f"memory_{op.name}" for op in offered if op.family == name]
    loaded = not hold.families or name in hold.families
    return FamilyView(name=name, tool_count=len(tools), loaded=loaded, tools=tools)
