"""The `recall` and `reembed` operations."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.embeddings import service as embedding_service
from holdfast.features.memories.store import build_filter
from holdfast.features.memories.views import ConfidenceTier, MemoryView, get_confidence_tier, memory_view
from holdfast.features.namespaces import service as namespace_service
from holdfast.features.recall import ranking
from holdfast.features.recall import service as recall_service
from holdfast.features.recall.query import RecallRequest
from holdfast.features.recall.service import Hit
from holdfast.features.reflections.list_stale import StaleView, stale_view
from holdfast.kernel.context import Context, with_ancestors
from holdfast.kernel.errors import EmbedderFailed
from holdfast.kernel.records.memory import Kind, Memory
from holdfast.kernel.registry.fields import (
    AsAgent,
    AsOf,
    EmbeddingField,
    KnownAt,
    Namespace,
    StoredSince,
    StoredUntil,
    Tags,
    TierField,
    Timestamp,
    embedding_of,
)
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset
from holdfast.kernel.text import toon
from holdfast.kernel.timestamps import TimeText, format_time, parse_time, utc_offset

QueryText = Annotated[
    str,
    Meta(min_length=1, max_length=131_072, description="What to look for.", extra={"argument": True, "role": "words"}),
]


Format = Literal["json", "toon", "toon_compact"]
COLUMNS: dict[str, tuple[str, ...]] = {
    "toon": (
        *("id", "title", "content", "score", "namespace", "tier", "tags", "priority", "confidence"),
        *("speaker", "occurred_at", "created_at", "updated_at", "agent_id", "access_count", "superseded_by", "stale"),
    ),
    "toon_compact": ("id", "title", "content", "score"),
}
"""Fields of a hit that become columns of the table, by format."""
EXPLAIN_COLUMNS = ("matched", "why")
"""Further columns when the request asks for an explanation."""


class QueryRequest(Request, frozen=True, kw_only=True):
    """A query and its filters."""

    context: QueryText
    namespace: Annotated[Namespace, Meta(description="This namespace and its parents.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=50, description="Maximum number of hits.")] = 10
    tags: Tags = []
    since: StoredSince | None = None
    until: StoredUntil | None = None
    as_agent: AsAgent | None = None
    budget_tokens: (
        Annotated[int, Meta(ge=0, le=10_000_000, description="Maximum tokens of the answer; 0 returns no hits.")] | None
    ) = None
    kinds: Annotated[list[Kind], Meta(description="Only memories of these kinds.")] = []
    tier: TierField | None = None
    has_citations: Annotated[bool, Meta(description="Only memories with citations.")] = False
    source_uri_prefix: (
        Annotated[str, Meta(max_length=4096, description="Only memories whose source URI starts with this.")] | None
    ) = None
    confidence_tier: Annotated[ConfidenceTier, Meta(description="Only memories of this confidence.")] | None = None
    include_archived: Annotated[bool, Meta(description="Also search archived memories.")] = False
    embedding: EmbeddingField | None = None
    now: (
        Annotated[
            Timestamp, Meta(description="Time of the query, for words such as yesterday; local time with offset.")
        ]
        | None
    ) = None


class Recall(QueryRequest, frozen=True, kw_only=True):
    as_of: AsOf | None = None
    known_at: KnownAt | None = None
    explain: Annotated[bool, Meta(description="Explain the score of each hit.")] = False
    format: Annotated[Format, Meta(description="toon: one table that takes fewer tokens.")] = "json"
    note: Annotated[bool, Meta(description="Count the hits as used and log the query.", extra={"not_on": ("mcp",)})] = (
        True
    )


class RecallMeta(Struct, frozen=True, kw_only=True):
    recall_mode: str
    candidates: int
    degraded: str | UnsetType = UNSET
    """Why the answer is incomplete."""
    budget_tokens_used: int | UnsetType = UNSET
    budget_tokens_remaining: int | UnsetType = UNSET
    memories_dropped: int | UnsetType = UNSET
    budget_overflow: bool | UnsetType = UNSET
    """The standards and the best hit, which are always returned, exceed the budget. With a budget of 0 nothing is."""
    tokens_estimated: bool | UnsetType = UNSET
    """Without a budget, tokens are estimated from the characters, accurate to about 10 %."""


class Part(Struct, frozen=True):
    """One part of a score: its value, its weight, and their product."""

    value: float
    weight: float
    adds: float


class MatchedRange(Struct, frozen=True):
    """Character range of the content that matched; -1: the title."""

    start: int
    end: int


class ScoreExplanation(Struct, frozen=True, kw_only=True):
    """Explanation of a score: the adjusted sum of the weighted parts, before scaling to the best hit."""

    score: float
    adjustment: float
    adjustments: dict[str, float]
    """What priority, confidence, recency, use and feedback each add to 1; `over` is a factor for expired or superseded
    memories."""
    parts: dict[str, Part]
    words: float
    """The keyword score (BM25) before scaling to the best candidate."""
    cosine: float | UnsetType = UNSET
    """Cosine of the nearest passage. Without an embedding there is none, and the part `vector` is an estimate."""
    terms: list[str]
    """Query words that the memory contains, as written in it."""


class RecalledMemory(MemoryView, frozen=True, kw_only=True):
    matched: MatchedRange | UnsetType = UNSET
    like: list[str] | UnsetType = UNSET
    """Ids of duplicates that were left out."""
    superseded_by: str | UnsetType = UNSET
    stale: StaleView | UnsetType = UNSET
    """Set if a source of it changed and the notice is still open."""
    why: ScoreExplanation | UnsetType = UNSET


class RecallResult(Struct, frozen=True, kw_only=True):
    recall_id: str | UnsetType = UNSET
    """Pass it to `feedback` to rate the hits."""
    memories: list[RecalledMemory]
    """Empty if the format is a table."""
    count: int
    mode: str
    tokens_used: int
    """Tokens of the hits as sent, and of the standards."""
    meta: RecallMeta
    budget_tokens: int | UnsetType = UNSET
    as_of: TimeText | UnsetType = UNSET
    known_at: TimeText | UnsetType = UNSET
    standards: list[MemoryView] | UnsetType = UNSET
    """The standards of the namespace, the most general first; not repeated among the hits."""
    toon: str | UnsetType = UNSET
    """The hits as a TOON table."""


@operation(
    Effect.READ,
    "POST /api/v1/recall",
    stage="recall",
    human="holdfast.features.recall.render:render_recall",
    examples=(
        Example({"context": "when do we deploy?"}),
        Example({"context": "what was decided last week?", "now": "2026-11-16T09:00:00Z", "explain": True}),
        Example({"context": "which way?", "embedding": {"model": "own", "vector": [1, 0.5]}}),
        Example({"context": "which way?", "embedding": {"model": "own", "vector": []}}, error="VALIDATION_FAILED"),
        Example({"context": "when do we deploy?", "as_of": "2026-11-01", "known_at": "2026-11-02T09:00:00Z"}),
        Example({"context": "when do we deploy?", "note": False}),
        Example({"context": "x", "known_at": "yesterday"}, error="VALIDATION_FAILED"),
        Example({"context": "x", "limit": 51}, error="VALIDATION_FAILED"),
        Example({"context": "when do we deploy?"}, prepared=True),
        Example({"context": "what was decided last week?", "namespace": "shop", "explain": True}, prepared=True),
    ),
)
def recall(ctx: Context, request: Recall) -> RecallResult:
    """Search memories by meaning and keywords."""
    as_of, known_at = parse_time(request.as_of, "as_of"), parse_time(request.known_at, "known_at")
    now = as_of is None and known_at is None
    standards = read_standards(ctx, request.namespace) if request.namespace and now else []
    shown_standards = list_shown_standards(standards, request.budget_tokens)
    shown: dict[str, RecalledMemory] = {}
    frame = build_frame(request.format, explain=request.explain)

    def render_hit(hit: Hit) -> str:
        shown[hit.memory.id] = hit_view(hit, explain=request.context if request.explain else None)
        return encode_hit(shown[hit.memory.id], request.format, explain=request.explain)

    found = recall_service.recall(
        ctx,
        build_recall_request(request, {memory.id for memory in standards})._replace(
            as_of=as_of, known_at=known_at, is_recorded=request.note
        ),
        lambda hits: recall_service.fill_budget(
            hits, render_hit, request.budget_tokens, frame=frame, before=render_standards(shown_standards)
        ),
    )
    return RecallResult(
        recall_id=value_or_unset(found.id),
        memories=[shown[hit.memory.id] for hit in found.hits] if request.format == "json" else [],
        count=len(found.hits),
        mode="hybrid" if found.by_vectors else "keyword",
        tokens_used=found.packing.tokens,
        meta=build_meta(found, request.budget_tokens),
        budget_tokens=value_or_unset(request.budget_tokens),
        as_of=format_time(as_of),
        known_at=format_time(known_at),
        standards=shown_standards or UNSET,
        toon=UNSET
        if request.format == "json"
        else encode_hits([shown[hit.memory.id] for hit in found.hits], request.format, explain=request.explain),
    )


def read_standards(ctx: Context, namespace: str) -> list[Memory]:
    """Return the standards of a namespace."""
    with ctx.reading() as session:
        return namespace_service.list_standards(ctx, session, namespace)


def list_columns(format: Format, *, explain: bool) -> tuple[str, ...]:
    return (*COLUMNS[format], *EXPLAIN_COLUMNS) if explain else COLUMNS[format]


def build_frame(format: Format, *, explain: bool) -> str:
    """Return the text that encloses the hits, for counting tokens."""
    return "[]" if format == "json" else f"memories[50]{{{','.join(list_columns(format, explain=explain))}}}:\n"


def list_shown_standards(standards: list[Memory], budget_tokens: int | None) -> list[MemoryView]:
    """Return the standards to send; none if the budget is 0 tokens."""
    return [] if budget_tokens == 0 else [memory_view(memory) for memory in standards]


def render_standards(standards: list[MemoryView]) -> str:
    """Return the text sent before the hits, for counting tokens."""
    return f'"standards":[{"".join(map(_encode_memory, standards))}],' if standards else ""


def encode_hit(hit: RecalledMemory, format: Format, *, explain: bool) -> str:
    """Encode a hit as it is sent among others, in its longest form."""
    return (
        _encode_memory(hit)
        if format == "json"
        else encode_hits([hit], format, explain=explain).partition("\n")[2] + "\n"
    )


def _encode_memory(memory: MemoryView) -> str:
    """Encode a memory as HTTP sends it: its metadata repeat the agent and the scope."""
    metadata = {**memory.metadata, "agent_id": memory.agent_id, "scope": memory.scope}
    return msgspec.json.encode(msgspec.structs.replace(memory, metadata=metadata)).decode() + ","


def encode_hits(hits: list[RecalledMemory], format: Format, *, explain: bool) -> str:
    """Encode hits as they are sent; a budget counts these tokens."""
    if format == "json":
        return msgspec.json.encode(hits).decode()
    plain = [msgspec.to_builtins(hit) for hit in hits]
    return toon.encode({"memories": toon.table(plain, list_columns(format, explain=explain))})


def build_recall_request(request: QueryRequest, excluded: set[str]) -> RecallRequest:
    return RecallRequest(
        text=request.context,
        filter=build_filter(request, namespaces=with_ancestors(request.namespace) if request.namespace else ()),
        limit=request.limit,
        excluded=excluded,
        embedding=None if request.embedding is None else embedding_of(request.embedding),
        now=parse_time(request.now, "now"),
        utc_offset=utc_offset(request.now),
    )


def build_meta(result: recall_service.RecallAnswer, budget_tokens: int | None) -> RecallMeta:
    mode = "hybrid" if result.by_vectors else "keyword_only"
    meta = RecallMeta(recall_mode=mode, candidates=result.candidates, degraded=value_or_unset(result.degraded))
    if budget_tokens is None:
        return msgspec.structs.replace(meta, tokens_estimated=True)
    return msgspec.structs.replace(
        meta,
        budget_tokens_used=result.packing.tokens,
        budget_tokens_remaining=max(0, budget_tokens - result.packing.tokens),
        memories_dropped=result.packing.dropped,
        budget_overflow=result.packing.overflow,
    )


def hit_view(hit: Hit, *, explain: str | None) -> RecalledMemory:
    """Build the view of a hit; `explain` is the query text if its score is to be explained."""
    piece = hit.ranked.passage
    return memory_view(
        hit.memory,
        hit.used,
        type=RecalledMemory,
        score=hit.score,
        confidence_tier=get_confidence_tier(hit.memory.confidence),
        matched=MatchedRange(piece.begins, piece.ends) if piece and hit.has_passages else UNSET,
        like=list(hit.like) or UNSET,
        superseded_by=value_or_unset(hit.superseded_by),
        stale=UNSET if hit.stale is None else stale_view(hit.stale),
        why=UNSET if explain is None else explain_score(hit.ranked, hit.memory, explain),
    )


def explain_score(ranked: ranking.RankedMemory, memory: Memory, query_text: str) -> ScoreExplanation:
    parts = zip(ranked.features._fields, ranked.features, ranking.WEIGHTS, strict=True)
    return ScoreExplanation(
        score=round(ranked.score, 6),
        adjustment=round(ranked.adjustments.compute_factor(), 6),
        adjustments=list_adjustments(ranked.adjustments),
        parts={name: Part(round(value, 6), weight, round(value * weight, 6)) for name, value, weight in parts if value},
        words=round(ranked.bm25, 6),
        cosine=value_or_unset(None if ranked.cosine is None else round(ranked.cosine, 6)),
        terms=recall_service.find_matched_words(memory, ranked.terms, query_text),
    )


def list_adjustments(adjustments: ranking.Adjustments) -> dict[str, float]:
    """Return the adjustments that have an effect, without factors of 1 and terms of 0."""
    rounded = {name: round(value, 6) for name, value in adjustments._asdict().items()}
    return {name: value for name, value in rounded.items() if value != (name == "over")}


class ReembedRequest(Request, frozen=True):
    everything: Annotated[bool, Meta(description="Recompute all embeddings, not only missing ones.")] = False


class RefusedMemory(Struct, frozen=True):
    id: str
    error: str


class ReembedResult(Struct, frozen=True, kw_only=True):
    model: str
    memories: int
    passages: int
    dropped: int
    """Embeddings dropped first because the model now has another number of dimensions."""
    refused: list[RefusedMemory]


@operation(
    Effect.WRITE,
    "POST /api/v1/reembed",
    cli=("admin", "reembed"),
    aliases=("reembed",),
    human="holdfast.features.recall.render:render_reembedding",
    examples=(
        Example({"everything": "perhaps"}, error="VALIDATION_FAILED"),
        Example({}, prepared=True),
        Example({"everything": True}, prepared=True),
    ),
)
def reembed(ctx: Context, request: ReembedRequest) -> ReembedResult:
    """Compute missing embeddings. Keyword recall keeps working."""
    if ctx.embedder is None:
        raise EmbedderFailed("No embedding model is configured: set `embedder` to minilm, openai or ollama.")
    dropped = embedding_service.restart_embeddings(ctx, ctx.embedder) if request.everything else 0
    result = embedding_service.embed_all_due(ctx, ctx.embedder)
    return ReembedResult(
        model=ctx.embedder.model,
        memories=result.memories,
        passages=result.passages,
        dropped=dropped,
        refused=[RefusedMemory(*one) for one in result.failed],
    )
