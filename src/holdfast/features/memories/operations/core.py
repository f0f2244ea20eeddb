"""The `store`, `bulk-store`, `get` and `update` operations."""

from functools import partial
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.graph import service as link_service
from holdfast.features.graph.service import LinkView, link_view
from holdfast.features.history import service as history_service
from holdfast.features.memories import find_memories, store_memory, update_memory
from holdfast.features.memories import store as memories
from holdfast.features.memories.views import MemoryView, memory_view
from holdfast.features.reflections import invalidation_store as invalidations
from holdfast.features.reflections.list_stale import StaleView, notified_or_unset, stale_view
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.memory import Category, Kind, OnConflict, Scope
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.registry.fields import (
    Actor,
    AsOf,
    CitationInput,
    Confidence,
    Content,
    EmbeddingField,
    Id,
    KnownAt,
    Metadata,
    Namespace,
    NewTier,
    Priority,
    SourceUri,
    SpanInput,
    Tags,
    TierField,
    Timestamp,
    Title,
    embedding_of,
)
from holdfast.kernel.registry.operation import REGISTRY, Effect, Example, Request, operation
from holdfast.kernel.timestamps import TIME, parse_time, parse_timestamp
from holdfast.kernel.vector import Embedding

CategoryField = Annotated[Category, Meta(description="Topic of a coding memory.")]
ScopeField = Annotated[Scope, Meta(description="Who sees it; private: you and agents you share it with.")]
Citations = Annotated[list[CitationInput], Meta(description="Where claims were read: uri, and optionally a span.")]
SourceSpan = Annotated[SpanInput, Meta(description="Byte range in the source: start and end.")]
ValidFrom = Annotated[Timestamp, Meta(description="When it became true.")]
ValidUntil = Annotated[Timestamp, Meta(description="When it ceased to be true.")]
OnConflictField = Annotated[
    Literal["error", "merge", "version"],
    Meta(description="If the title is taken: error, merge (default), or version (add a number)."),
]


class Store(Request, frozen=True):
    title: Title
    content: Content
    namespace: Namespace | None = None
    tier: NewTier | None = None
    tags: Tags = []
    priority: Priority | None = None
    confidence: Confidence | None = None
    kind: Annotated[Kind, Meta(description="Kind of memory.")] | None = None
    category: CategoryField | None = None
    scope: ScopeField | None = None
    metadata: Metadata = {}
    source: (
        Annotated[str, Meta(max_length=64, description="What created it, such as cli or api.", extra={"short": "S"})]
        | None
    ) = None
    on_conflict: OnConflictField | None = None
    expires_at: Annotated[Timestamp, Meta(description="Expiry time.")] | None = None
    ttl_secs: Annotated[int, Meta(ge=1, le=31_536_000, description="Lifetime in seconds.")] | None = None
    citations: Citations = []
    source_uri: SourceUri | None = None
    source_span: SourceSpan | None = None
    valid_from: ValidFrom | None = None
    valid_until: ValidUntil | None = None
    speaker: Annotated[str, Meta(max_length=512, description="Who said it.")] | None = None
    occurred_at: Annotated[Timestamp, Meta(description="When it happened.")] | None = None
    thread: Annotated[str, Meta(max_length=512, description="Conversation it belongs to.")] | None = None
    place: Annotated[int, Meta(ge=0, le=(1 << 53) - 1, description="Position in its thread.")] | None = None
    embedding: EmbeddingField | None = None
    force: Annotated[bool, Meta(description="Skip the duplicate check.")] = False
    agent_id: Actor | None = None

    def to_draft(self, ctx: Context) -> Draft:
        """Build the draft to validate: missing fields are UNSET, times are microseconds."""

        def value_or_unset(name: str) -> Any:
            value = getattr(self, name)
            return UNSET if value is None or value in ([], {}) else value

        def time_or_unset(name: str) -> Any:
            value = getattr(self, name)
            return UNSET if value is None else parse_timestamp(value, name)

        return Draft(
            title=self.title,
            content=self.content,
            namespace=self.namespace or ctx.namespace,
            source=self.source or ctx.caller.source,
            ttl_secs=self.ttl_secs,
            tags=tuple(self.tags) if self.tags else UNSET,
            citations=tuple(self.citations) if self.citations else UNSET,
            **{
                name: value_or_unset(name)
                for name in (
                    "tier",
                    "priority",
                    "confidence",
                    "kind",
                    "category",
                    "scope",
                    "metadata",
                    "source_uri",
                    "source_span",
                    "speaker",
                    "thread",
                    "place",
                )
            },
            **{name: time_or_unset(name) for name in ("expires_at", "valid_from", "valid_until", "occurred_at")},
        )


class SimilarView(Struct, frozen=True, kw_only=True):
    """A memory that repeats, updates or contradicts the stored one."""

    id: str
    title: str
    relation: str
    score: float
    suggestion: str
    """Suggested action: restates, merge, supersede or contradicts."""


class StoreResult(MemoryView, frozen=True, kw_only=True):
    outcome: store_memory.Outcome
    """If restated or recalled, nothing was stored and this is the existing memory."""
    restated: int | UnsetType = UNSET
    """How often a duplicate of it was stored."""
    similar: list[SimilarView] | UnsetType = UNSET
    secrets: list[str] | UnsetType = UNSET
    """Kinds of secrets it contains."""
    redacted: list[str] | UnsetType = UNSET
    """Kinds of secrets that were redacted."""


@operation(
    Effect.WRITE,
    "POST /api/v1/memories",
    stage="store",
    status=201,
    human="holdfast.features.memories.render:render_memory",
    examples=(
        Example({"title": "Deploy day", "content": "We deploy on Tuesdays.", "namespace": "team", "tags": ["ops"]}),
        Example({"title": "Empty", "content": "   "}, error="VALIDATION_FAILED"),
        Example({"title": "Way", "content": "home", "embedding": {"model": "own", "vector": [0.6, 0.8]}}),
        Example(
            {"title": "Nowhere", "content": "to be", "embedding": {"model": "own", "vector": [0, 0]}},
            error="VALIDATION_FAILED",
        ),
        Example({"title": "No such tier", "content": "x", "tier": "eternal"}, error="VALIDATION_FAILED"),
        Example({"title": "Deploy day", "content": "We deploy on Tuesdays."}, prepared=True),
        Example(
            {
                "title": "Deploy day",
                "content": "We deploy on Tuesdays.",
                "namespace": "shop/web",
                "tags": ["ops", "release"],
            },
            prepared=True,
        ),
    ),
)
def store(ctx: Context, request: Store) -> StoreResult:
    """Store a memory.

    It is durable, searchable and journalled when this returns.
    """
    embedding = None if request.embedding is None else embedding_of(request.embedding)
    result = store_memory.remember(
        ctx, request.to_draft(ctx), request.on_conflict or "merge", embedding, force=request.force
    )
    used = (0, 0) if result.outcome == "created" else read_access_count(ctx, result.memory.id)
    return memory_view(result.memory, used, type=StoreResult, outcome=result.outcome, **_dedup_fields(ctx, result))


def _dedup_fields(ctx: Context, result: store_memory.RememberResult) -> dict[str, Any]:
    """Response fields for duplicates, similar memories and secrets."""
    again = result.outcome in ("restated", "recalled")
    return {
        "restated": store_memory.get_duplicate_count(ctx, result.memory.id) if again else UNSET,
        "similar": [_similar_view(one) for one in result.similar] or UNSET,
        **_secret_fields(result.secrets),
    }


def _secret_fields(found: store_memory.SecretsFound) -> dict[str, Any]:
    return {"redacted" if found.redacted else "secrets": list(found.kinds) or UNSET}


def _similar_view(one: store_memory.Similar) -> SimilarView:
    return SimilarView(
        id=one.memory.id,
        title=one.memory.title,
        relation=one.likeness.relation,
        score=round(one.likeness.score, 4),
        suggestion=one.suggestion,
    )


class BulkStore(Request, frozen=True):
    memories: Annotated[
        list[dict[str, Any]],
        Meta(min_length=1, max_length=1000, description="Memories, each with the fields of store."),
    ]
    on_conflict: OnConflictField = "merge"
    agent_id: Actor | None = None


class ItemOutcome(Struct, frozen=True, kw_only=True):
    index: int
    outcome: Literal["created", "merged", "unchanged", "restated", "recalled", "rejected"]
    id: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    similar: list[SimilarView] | UnsetType = UNSET
    secrets: list[str] | UnsetType = UNSET
    redacted: list[str] | UnsetType = UNSET


class BulkStoreResult(Struct, frozen=True, kw_only=True):
    created: int
    count: int
    ids: list[str]
    outcomes: list[ItemOutcome]
    errors: list[ItemOutcome]


@operation(
    Effect.WRITE,
    "POST /api/v1/memories/bulk",
    cli=("import", "memories"),
    aliases=("bulk-store",),
    stage="store",
    bulk="memories",
    human="holdfast.features.memories.render:render_batch",
    examples=(
        Example({"memories": [{"title": "One", "content": "first"}, {"title": "Two", "content": "second"}]}),
        Example({"memories": [{"title": "Good", "content": "kept"}, {"title": "", "content": "refused", "x": 1}]}),
        Example({"memories": [{"title": "A", "content": "b", "embedding": {"model": "own", "vector": [1]}}]}),
        Example({"memories": []}, error="VALIDATION_FAILED"),
        Example({"memories": [{"title": "Deploy day", "content": "We deploy on Tuesdays."}]}, prepared=True),
    ),
)
def bulk_store(ctx: Context, request: BulkStore) -> BulkStoreResult:
    """Store many memories in one transaction, with an outcome for each."""
    results = store_memory.remember_all(ctx, [partial(build_draft, ctx, item, request) for item in request.memories])
    outcomes = [
        _item_outcome(index, one)
        if isinstance(one, store_memory.RememberResult)
        else ItemOutcome(index=index, outcome="rejected", error=one.message, code=one.code)
        for index, one in enumerate(results)
    ]
    stored_ids = [one.id for one in outcomes if isinstance(one.id, str)]
    return BulkStoreResult(
        created=sum(one.outcome == "created" for one in outcomes),
        count=len(stored_ids),
        ids=stored_ids,
        outcomes=outcomes,
        errors=[one for one in outcomes if one.outcome == "rejected"],
    )


def _item_outcome(index: int, one: store_memory.RememberResult) -> ItemOutcome:
    return ItemOutcome(
        index=index,
        outcome=one.outcome,
        id=one.memory.id,
        similar=[_similar_view(other) for other in one.similar] or UNSET,
        **_secret_fields(one.secrets),
    )


def build_draft(
    ctx: Context, given: dict[str, Any], request: BulkStore
) -> tuple[Draft, OnConflict, Embedding | None, bool]:
    """Validate one item and build its draft; an invalid one raises, and its outcome is recorded."""
    item = REGISTRY["store"].parse_request(given)
    assert isinstance(item, Store)
    if item.agent_id not in (None, ctx.caller.agent):
        raise Invalid("agent_id: not allowed per item: set agent_id of the whole request", fields=["agent_id"])
    return item.to_draft(ctx), item.on_conflict or request.on_conflict, embedding_of(item.embedding), item.force


class Get(Request, frozen=True):
    id: Id
    as_of: AsOf | None = None
    known_at: KnownAt | None = None


class GetResult(MemoryView, frozen=True, kw_only=True):
    links: list[LinkView]
    also: list[str] | UnsetType = UNSET
    """Ids of memories with the same title from other stores, shown as this one; get accepts them, too."""
    stale: StaleView | UnsetType = UNSET
    """Set if a source changed or was deleted and its notice is not resolved."""
    restated: int | UnsetType = UNSET
    """How often a duplicate of it was stored."""
    secrets: list[str] | UnsetType = UNSET
    """Kinds of secrets it contains, unless its namespace allows them."""


@operation(
    Effect.READ,
    "GET /api/v1/memories/{id}",
    human="holdfast.features.memories.render:render_memory",
    examples=(
        Example({"id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"id": "1f3a9c20"}, prepared=True),
        Example({"id": "1f3a9c20", "known_at": "2030-01-01"}, prepared=True),
    ),
)
def get(ctx: Context, request: Get) -> GetResult:
    """Show a memory with its links, now or at a past time."""
    as_of, known_at = parse_time(request.as_of, "as_of"), parse_time(request.known_at, "known_at")
    with ctx.reading() as session:
        if as_of is None and known_at is None:
            memory = find_memories.get(ctx, session, request.id)
            stale = invalidations.find_stale(session, ctx.caller, [memory.id], ctx.now())
        else:
            memory = history_service.get_past_state(ctx, session, request.id, as_of=as_of, known_at=known_at)
            stale = {}
        links = [link_view(link) for link in link_service.list_links(ctx, session, memory.id, valid_at=as_of)]
        also = [row[0] for row in session.rows("title_group_others", id=memory.id)] or UNSET
        used = memories.read_access_counts(session, [memory.id]).get(memory.id, (0, 0))
    return memory_view(
        memory,
        used,
        type=GetResult,
        links=links,
        also=also,
        stale=stale_view(stale.get(memory.id)),
        restated=store_memory.get_duplicate_count(ctx, memory.id) or UNSET,
        secrets=store_memory.list_secret_kinds(ctx, memory) or UNSET,
    )


class Update(Request, frozen=True):
    id: Id
    title: Title | None = None
    content: Content | None = None
    tier: TierField | None = None
    namespace: Namespace | None = None
    tags: Tags | None = None
    priority: Priority | None = None
    confidence: Confidence | None = None
    kind: Annotated[Kind, Meta(description="Kind of memory.")] | None = None
    category: CategoryField | None = None
    scope: ScopeField | None = None
    metadata: Metadata | None = None
    citations: Citations | None = None
    source_uri: SourceUri | None = None
    source_span: SourceSpan | None = None
    expires_at: (
        Annotated[str, Meta(max_length=40, description="Expiry time; null or empty: never."), TIME] | None | UnsetType
    ) = UNSET
    valid_from: ValidFrom | None = None
    valid_until: ValidUntil | None = None
    expected_version: (
        Annotated[int, Meta(ge=1, le=(1 << 53) - 1, description="Fail if the memory is at another version.")] | None
    ) = None
    embedding: EmbeddingField | None = None
    agent_id: Actor | None = None


class UpdateResult(MemoryView, frozen=True, kw_only=True):
    invalidation_notified: list[str] | UnsetType = UNSET
    """Ids of its dependents that were flagged stale, as far as you may see them."""


@operation(
    Effect.WRITE,
    "PUT /api/v1/memories/{id}",
    stage="store",
    human="holdfast.features.memories.render:render_memory",
    examples=(
        Example({"id": "no-such-memory", "priority": 9}, error="NOT_FOUND"),
        Example({"id": "1f3a9c20", "content": "We deploy on Wednesdays."}, prepared=True),
        Example({"id": "1f3a9c20", "tier": "long", "tags": ["ops", "release"]}, prepared=True),
    ),
)
def update(ctx: Context, request: Update) -> UpdateResult:
    """Update some fields of a memory; others stay."""
    patch = {
        name: value
        for name in (
            "title",
            "content",
            "tier",
            "namespace",
            "tags",
            "priority",
            "confidence",
            "kind",
            "category",
            "scope",
            "metadata",
            "citations",
            "source_uri",
            "source_span",
        )
        if (value := getattr(request, name)) is not None
    }
    for name in ("valid_from", "valid_until"):
        if (value := getattr(request, name)) is not None:
            patch[name] = parse_timestamp(value, name)
    if request.expires_at is not UNSET:
        patch["expires_at"] = parse_timestamp(request.expires_at, "expires_at") if request.expires_at else None
    memory = update_memory.update_memory(
        ctx, request.id, patch, request.expected_version, embedding_of(request.embedding)
    )
    flagged = notified_or_unset(ctx)
    return memory_view(memory, read_access_count(ctx, memory.id), type=UpdateResult, invalidation_notified=flagged)


def read_access_count(ctx: Context, id: str) -> tuple[int, int]:
    """Read access count and latest access time of one memory."""
    with ctx.reading() as session:
        return memories.read_access_counts(session, [id]).get(id, (0, 0))
