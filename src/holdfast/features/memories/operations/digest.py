"""Operations: consolidate memories, check for duplicates."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.curation import consolidate as consolidation
from holdfast.features.curation.operations.derive import method_fields
from holdfast.features.curation.summarise import summarise_memories
from holdfast.features.llm.assist import Method, MethodUsed
from holdfast.features.memories import check_duplicate as duplicates
from holdfast.features.memories.views import MemoryView, memory_view
from holdfast.features.reflections.list_stale import notified_or_unset
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
    human="holdfast.features.memories.render:render_consolidation",
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
    summary, how = _summarise(ctx, request.ids) if request.summarise else (request.summary, None)
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


def _summarise(ctx: Context, ids: list[str]) -> tuple[str, MethodUsed]:
    return summarise_memories(ctx, ids)


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
    human="holdfast.features.memories.render:render_duplicate_check",
    examples=(
        Example({"title": "Deploy day", "content": "We deploy on Tuesdays."}),
        Example({"title": "x", "content": "y", "threshold": 0.4}, error="VALIDATION_FAILED"),
    ),
)
def check_duplicate(ctx: Context, request: CheckDuplicate) -> DuplicateCheck:
    """Check whether a text is stored already, exactly or nearly."""
    with ctx.reading() as session:
        found, scanned = duplicates.find_nearest(ctx, session, request.title, request.content, request.namespace)
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
