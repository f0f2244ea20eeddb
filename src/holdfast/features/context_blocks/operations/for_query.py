"""The `context` operation."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.context_blocks import for_query as packing
from holdfast.features.memories.operations.core import filter_of, moment
from holdfast.features.memories.views import known, text
from holdfast.features.recall.operations.recall import Question
from holdfast.features.recall.service import Ask
from holdfast.kernel.context import Hold
from holdfast.kernel.records.taxonomy import lineage
from holdfast.kernel.registry.fields import AsOf, KnownAt, Moment, Namespace, StoredSince, StoredUntil, Tags, TierField
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import zone_of


class Context(Request, frozen=True):
    query: Question
    budget: Annotated[int, Meta(ge=1, le=1_000_000, description="Maximum tokens of the block (cl100k).")] = 2000
    namespace: Annotated[Namespace, Meta(description="This namespace and its parents.")] | None = None
    tags: Tags = []
    tier: TierField | None = None
    since: StoredSince | None = None
    until: StoredUntil | None = None
    as_agent: Namespace | None = None
    now: (
        Annotated[Moment, Meta(description="Time of the query, for words such as yesterday; local time with offset.")]
        | None
    ) = None
    as_of: AsOf | None = None
    known_at: KnownAt | None = None


class ContextBlock(Struct, frozen=True, kw_only=True):
    recall_id: str | UnsetType = UNSET
    """Pass it to `feedback` to rate the cited memories."""
    text: str
    """Empty if nothing was found or fits; `reason` says why."""
    tokens_used: int
    budget: int
    cited: list[str]
    """Ids of the shown memories, in order."""
    cut: list[str]
    """Ids of memories of which only passages are shown."""
    dropped: int
    """Number of hits, of at most 50, that did not fit."""
    more: int | UnsetType = UNSET
    """Number of other memories with a word of the query. Not set if there are thousands, if the query names a time, or
    for queries about the past."""
    mode: str
    as_of: str | UnsetType = UNSET
    known_at: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    degraded: str | UnsetType = UNSET


@operation(
    Effect.READ,
    "POST /api/v1/context",
    family="core",
    stage="recall",
    human="holdfast.features.context_blocks.render:render_query_context",
    examples=(
        Example({"query": "when do we deploy?", "budget": 400}),
        Example({"query": "when do we deploy?", "known_at": "2026-11-01"}),
        Example({"query": "when do we deploy?", "budget": 0}, error="VALIDATION_FAILED"),
    ),
)
def context(hold: Hold, request: Context) -> ContextBlock:
    """Recall memories as one block for a prompt: cited, fenced, within a budget."""
    namespaces = lineage(request.namespace) if request.namespace else ()
    ask = Ask(
        request.query,
        filter_of(request, namespaces=namespaces),
        now=moment(request.now, "now"),
        zone=zone_of(request.now),
        as_of=moment(request.as_of, "as_of"),
        known_at=moment(request.known_at, "known_at"),
    )
    block, found, more = packing.context(hold, ask, request.budget)
    return ContextBlock(
        recall_id=known(found.id),
        text=block.text,
        tokens_used=block.tokens,
        budget=request.budget,
        cited=list(block.cited),
        cut=list(block.cut),
        dropped=block.dropped,
        more=known(more),
        mode="hybrid" if found.by_vectors else "keyword",
        as_of=text(ask.as_of),
        known_at=text(ask.known_at),
        reason=known(block.reason),
        degraded=known(found.degraded),
    )
