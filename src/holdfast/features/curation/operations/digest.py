"""Operations: consolidate memories, check for duplicates, promote."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.curation import consolidate as consolidation
from holdfast.features.curation import promote as promotion
from holdfast.features.llm.assist import Method, method_fields
from holdfast.features.memories.views import MemoryView, memory_view, notified_or_unset
from holdfast.features.reflections.summarise import summarise_memories
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.registry.fields import Actor, Content, Id, Namespace, TierField, Title
from holdfast.kernel.registry.operation import Effect, Example, Request, operation


class Consolidate(Request, frozen=True):
    ids: Annotated[
        list[Id], Meta(min_length=2, max_length=100, description="Memories to merge.", extra={"argument": True})
    ]
    title: Title
    summary: (
        Annotated[
            Content,
            Meta(
                description="Text of the new memory; without it, the texts joined.", extra={"short": "s", "stdin": True}
            ),
        ]
        | None
    ) = None
    summarise: Annotated[
        bool, Meta(description="Summarise them: with the model if one is set, else by sentence selection.")
    ] = False
    namespace: (
        Annotated[Namespace, Meta(description="Namespace of the new memory; default: the shared one.")] | None
    ) = None
    tier: TierField = "long"
    agent_id: Actor | None = None


class ConsolidateResult(Struct, frozen=True, kw_only=True):
    id: str
    consolidated: int
    memory: MemoryView
    invalidation_notified: list[str] | UnsetType = UNSET
    """Ids of dependents that were flagged stale, as far as you may see them."""
    method: Method | UnsetType = UNSET
    """How the summary was made, if none was given."""
    model: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    """Why the configured model was not used."""


@operation(
    Effect.WRITE,
    "POST /api/v1/consolidate",
    cli=("curate", "merge"),
    aliases=("consolidate",),
    stage="store",
    status=201,
    human="holdfast.features.curation.render:render_consolidation",
    examples=(
        Example({"ids": ["no-such-memory", "nor-this-one"], "title": "Both", "summary": "One."}, error="NOT_FOUND"),
        Example({"ids": ["only-one"], "title": "One", "summary": "One."}, error="VALIDATION_FAILED"),
        Example({"ids": ["a", "b"], "title": "T", "summary": "x", "summarise": True}, error="VALIDATION_FAILED"),
        Example(
            {
                "ids": ["1f3a9c20", "8b2e41d7"],
                "title": "Deploying",
                "summary": "Deploy on Tuesdays; roll back with make rollback.",
            },
            prepared=True,
        ),
        Example({"ids": ["1f3a9c20", "8b2e41d7"], "title": "Deploying", "summarise": True}, prepared=True),
    ),
)
def consolidate(ctx: Context, request: Consolidate) -> ConsolidateResult:
    """Merge 2 to 100 memories into one; archive and link the originals."""
    if request.summarise and request.summary is not None:
        raise Invalid("summarise: cannot be combined with summary: give one of them", fields=["summarise", "summary"])
    summary, how = summarise_memories(ctx, request.ids) if request.summarise else (request.summary, None)
    memory, sources = consolidation.consolidate(
        ctx, request.ids, request.title, summary, request.namespace, request.tier, how
    )
    return ConsolidateResult(
        id=memory.id,
        consolidated=len(sources),
        memory=memory_view(memory),
        invalidation_notified=notified_or_unset(ctx),
        **(method_fields(how) if how else {}),
    )


class CheckDuplicate(Request, frozen=True):
    title: Title
    content: Content
    namespace: Namespace | None = None
    threshold: Annotated[float, Meta(ge=0.5, le=1, description="Minimum similarity of a duplicate.")] = 0.85


class Neighbour(Struct, frozen=True, kw_only=True):
    id: str
    title: str
    namespace: str
    similarity: float


class DuplicateCheck(Struct, frozen=True, kw_only=True):
    is_duplicate: bool
    threshold: float
    nearest: Neighbour | None
    suggested_merge: str | None
    """The memory to update instead of storing a new one."""
    candidates_scanned: int


@operation(
    Effect.READ,
    "POST /api/v1/check_duplicate",
    cli=("curate", "check-duplicate"),
    aliases=("check-duplicate",),
    human="holdfast.features.curation.render:render_duplicate_check",
    examples=(
        Example({"title": "Deploy day", "content": "We deploy on Tuesdays."}),
        Example({"title": "x", "content": "y", "threshold": 0.4}, error="VALIDATION_FAILED"),
    ),
)
def check_duplicate(ctx: Context, request: CheckDuplicate) -> DuplicateCheck:
    """Check whether a text is stored already, exactly or nearly."""
    with ctx.reading() as session:
        found, scanned = consolidation.find_nearest(ctx, session, request.title, request.content, request.namespace)
    nearest = None
    if found is not None:
        memory, similarity = found
        nearest = Neighbour(
            id=memory.id, title=memory.title, namespace=memory.namespace, similarity=round(similarity, 6)
        )
    same = found is not None and found.similarity >= request.threshold
    return DuplicateCheck(
        is_duplicate=same,
        threshold=request.threshold,
        nearest=nearest,
        suggested_merge=nearest.id if nearest is not None and same else None,
        candidates_scanned=scanned,
    )


class Promote(Request, frozen=True):
    id: Id
    target_tier: Annotated[Literal["mid", "long"], Meta(description="Tier to move it to.")] = "long"
    to_namespace: Annotated[Namespace, Meta(description="Copy it to this parent namespace instead.")] | None = None


class PromoteResult(MemoryView, frozen=True, kw_only=True):
    promoted: bool
    mode: Literal["tier", "vertical"]
    source_id: str | UnsetType = UNSET
    clone_id: str | UnsetType = UNSET


@operation(
    Effect.WRITE,
    "POST /api/v1/memories/{id}/promote",
    topic="memories",
    cli=("curate", "promote"),
    aliases=("promote",),
    stage="store",
    human="holdfast.features.memories.render:render_memory",
    examples=(
        Example({"id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"id": "5d0c93aa"}, prepared=True),
        Example({"id": "1f3a9c20", "to_namespace": "shop"}, prepared=True),
    ),
)
def promote(ctx: Context, request: Promote) -> PromoteResult:
    """Move a memory to a longer-lived tier, or copy it to a parent namespace."""
    if request.to_namespace is None:
        promoted = promotion.promote_tier(ctx, request.id, request.target_tier)
        return memory_view(promoted, type=PromoteResult, promoted=True, mode="tier")
    source, copy = promotion.promote_to_namespace(ctx, request.id, request.to_namespace)
    return memory_view(copy, type=PromoteResult, promoted=True, mode="vertical", source_id=source.id, clone_id=copy.id)
