"""What bears on a question, ready to be pasted before it."""

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
    budget: Annotated[int, Meta(ge=1, le=1_000_000, description="Fit into this many tokens of cl100k.")] = 2000
    namespace: Annotated[Namespace, Meta(description="Here and above.")] | None = None
    tags: Tags = []
    tier: TierField | None = None
    since: StoredSince | None = None
    until: StoredUntil | None = None
    as_agent: Namespace | None = None
    now: (
        Annotated[Moment, Meta(description="When it is asked, for words such as yesterday, by the asker's clock.")]
        | None
    ) = None
    as_of: AsOf | None = None
    known_at: KnownAt | None = None


class ContextBlock(Struct, frozen=True, kw_only=True):
    recall_id: str | UnsetType = UNSET
    """By which `feedback` says what became of what is cited."""
    text: str
    """Empty if nothing was found or fits; then `reason` says so."""
    tokens_used: int
    budget: int
    cited: list[str]
    """The ids of what is shown, in the order in which it is."""
    cut: list[str]
    """Those of which only passages are shown."""
    dropped: int
    """Of the hits, 50 at most, those that did not fit."""
    more: int | UnsetType = UNSET
    """Memories that hold a word of the question and are no hits; not said of the past, of a time, nor of thousands."""
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
    """Pack what bears on a question into one block for an agent: in time order, cited, fenced as data."""
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
