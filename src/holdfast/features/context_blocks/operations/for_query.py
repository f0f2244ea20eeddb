"""The `context` operation."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.context_blocks import for_query as query_context
from holdfast.features.memories.store import build_filter
from holdfast.features.recall.operations.recall import QueryText
from holdfast.features.recall.query import RecallRequest
from holdfast.kernel.context import Context, with_ancestors
from holdfast.kernel.registry.fields import (
    AsAgent,
    AsOf,
    KnownAt,
    Namespace,
    StoredSince,
    StoredUntil,
    Tags,
    TierField,
    Timestamp,
)
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset
from holdfast.kernel.timestamps import TimeText, format_time, parse_time, utc_offset


class ContextRequest(Request, frozen=True):
    query: QueryText
    budget: Annotated[int, Meta(ge=1, le=1_000_000, description="Maximum tokens of the block (cl100k).")] = 2000
    namespace: Annotated[Namespace, Meta(description="This namespace and its parents.")] | None = None
    tags: Tags = []
    tier: TierField | None = None
    since: StoredSince | None = None
    until: StoredUntil | None = None
    as_agent: AsAgent | None = None
    now: (
        Annotated[
            Timestamp, Meta(description="Time of the query, for words such as yesterday; local time with offset.")
        ]
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
    as_of: TimeText | UnsetType = UNSET
    known_at: TimeText | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    degraded: str | UnsetType = UNSET


@operation(
    Effect.READ,
    "POST /api/v1/context",
    stage="recall",
    human="holdfast.features.context_blocks.render:render_query_context",
    examples=(
        Example({"query": "when do we deploy?", "budget": 400}),
        Example({"query": "when do we deploy?", "known_at": "2026-11-01"}),
        Example({"query": "when do we deploy?", "budget": 0}, error="VALIDATION_FAILED"),
    ),
)
def context(ctx: Context, request: ContextRequest) -> ContextBlock:
    """Recall memories as one block for a prompt: cited, fenced, within a budget."""
    namespaces = with_ancestors(request.namespace) if request.namespace else ()
    ask = RecallRequest(
        request.query,
        build_filter(request, namespaces=namespaces),
        now=parse_time(request.now, "now"),
        utc_offset=utc_offset(request.now),
        as_of=parse_time(request.as_of, "as_of"),
        known_at=parse_time(request.known_at, "known_at"),
    )
    block, found, more = query_context.build_query_context(ctx, ask, request.budget)
    return ContextBlock(
        recall_id=value_or_unset(found.id),
        text=block.text,
        tokens_used=block.tokens,
        budget=request.budget,
        cited=list(block.cited),
        cut=list(block.cut),
        dropped=block.dropped,
        more=value_or_unset(more),
        mode="hybrid" if found.by_vectors else "keyword",
        as_of=format_time(ask.as_of),
        known_at=format_time(ask.known_at),
        reason=value_or_unset(block.reason),
        degraded=value_or_unset(found.degraded),
    )
