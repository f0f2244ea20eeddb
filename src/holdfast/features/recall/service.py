"""Search memories by meaning and keywords, best match first. Writes nothing."""

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.embeddings import service as embedding_service
from holdfast.features.embeddings import store as embedding_store
from holdfast.features.embeddings.service import MAX_FRESH, QueryEmbedding
from holdfast.features.embeddings.store import REPLY, DueMemory, PassageEmbedding
from holdfast.features.history.snapshot import Snapshot, open_snapshot
from holdfast.features.memories import store as memories
from holdfast.features.memories.access_log import AccessLog
from holdfast.features.memories.find_memories import list_lost_contents, normalize_filter
from holdfast.features.memories.store import Filter
from holdfast.features.recall import budget, ranking, recall_snapshot, search_index
from holdfast.features.recall.captured_prompts import FRAME_STEMS
from holdfast.features.recall.features import (
    Candidates,
    ChannelHits,
    LexicalHits,
    Reader,
    compute_cosines,
    find_candidates,
    find_dated,
    find_lexical_hits,
    find_speakers,
    read_channel,
)
from holdfast.features.recall.query import Query, find_asked_speakers, parse_query, rewrite_in_first_person
from holdfast.features.recall.recall_log import PendingRecall, RecallLog
from holdfast.features.recall.recall_snapshot import NO_PAST, PastCandidates
from holdfast.features.recall.search_index import Row
from holdfast.features.reflections import invalidation_store as invalidations
from holdfast.features.reflections.invalidation_store import StaleReason
from holdfast.kernel.context import Context
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.errors import EmbedderFailed
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.index_terms import terms_of_line
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import STOP
from holdfast.kernel.vector import Embedding

OVERSAMPLING = 2
"""Rank this many times the requested number, because duplicates are dropped afterwards."""
COMMON_STEMS = frozenset(stem for word in STOP for stem in index_terms.stems(word))
"""Stems that are ignored when two memories are compared."""
MIN_SHARED_WORDS = 5
"""Fewer distinctive words never make two memories duplicates."""


class RecallRequest(NamedTuple):
    """A query, its filters and options."""

    text: str
    filter: Filter = memories.EVERYTHING
    limit: int = 10
    excluded: Collection[str] = ()
    embedding: Embedding | None = None
    """Vector of the query, from the caller's own model."""
    now: int | None = None
    """Time of the query, for words such as yesterday. None: now."""
    utc_offset: int = 0
    """Offset of the caller's clock from UTC, in microseconds."""
    as_of: int | None = None
    """Search what was true at this time."""
    known_at: int | None = None
    """Search what this store knew at this time."""
    is_recorded: bool = True
    """Count the hits as used and log the query."""


class Hit(NamedTuple):
    memory: Memory
    score: float
    """Relative to the best hit, which has 1."""
    ranked: ranking.RankedMemory
    like: tuple[str, ...] = ()
    """Duplicates that were left out."""
    superseded_by: str | None = None
    used: tuple[int, int] = (0, 0)
    """Number of accesses, and time of the last one."""
    has_passages: bool = False
    """The memory has more than one passage."""
    stale: StaleReason | None = None
    """Set if a source of the memory changed."""


class RecallResult(NamedTuple):
    id: str | None
    """Id to rate the hits. None if there are no hits, the query is about the past, or it was not logged."""
    hits: list[Hit]
    candidates: int
    packing: budget.PackResult
    by_vectors: bool
    degraded: str | None
    query: Query


def recall(
    ctx: Context, request: RecallRequest, pick: Callable[[list[Hit]], tuple[list[Hit], budget.PackResult]]
) -> RecallResult:
    """Find the memories that best answer a query: by keywords, by vectors, and next to either in a thread.

    Filters apply before ranking, ranking before the limit, the limit before the budget. `pick` chooses the hits.
    """
    prepared = prepare_query(ctx, request)
    with ctx.reading() as session:
        reader = Reader(ctx, session, prepared.request.filter, prepared.now)
        prepared = _add_conflict_losers(reader, prepared)
        found = build_ranking(reader, prepared)
        hits = build_hits(reader, order_hits(found.entries, found.pool), found.pool, prepared.request)
    kept, packed = pick(hits)
    id = _record_recall(ctx, request, kept, prepared.now) if prepared.snapshot is None and request.is_recorded else None
    by_vectors = any(one.ranked.cosine is not None for one in hits) or bool(found.nearest_ids)
    degraded = prepared.degraded
    if prepared.vector is not None and hits and not by_vectors:
        degraded = degraded or NO_EMBEDDINGS
    return RecallResult(id, kept, len(found.pool.candidates), packed, by_vectors, degraded, prepared.query)


def _record_recall(ctx: Context, request: RecallRequest, hits: Sequence[Hit], now: int) -> str | None:
    """Add the accesses and the recall to the buffers that are flushed later."""
    ctx.local(AccessLog).record(ctx.caller.agent, [hit.memory.id for hit in hits], now)
    if not hits:
        return None
    pending = PendingRecall(ctx.new_id(), now, ctx.caller.agent, request.text, tuple(hit.ranked for hit in hits))
    ctx.local(RecallLog).add(pending)
    return pending.id


class PreparedQuery(NamedTuple):
    """A query that is ready for ranking: lexical hits, vector, time."""

    request: RecallRequest
    query: Query
    lexical: LexicalHits
    vector: Embedding | None
    fresh: list[PassageEmbedding]
    degraded: str | None
    now: int
    """The time at which filters apply; in the past for a query about the past."""
    snapshot: Snapshot | None


def prepare_query(ctx: Context, request: RecallRequest) -> PreparedQuery:
    """Parse a query, find its lexical hits and compute its vector."""
    request = request._replace(filter=normalize_filter(request.filter))
    now = ctx.now()
    if ctx.embedder is not None and request.embedding is None:
        ctx.embedder.warm()
    query = parse_query(request.text, now if request.now is None else request.now, request.utc_offset)
    snapshot = None
    with QueryEmbedding() as prefetched:
        with ctx.reading() as session:
            if request.as_of is not None or request.known_at is not None:
                snapshot = open_snapshot(session, now, as_of=request.as_of, known_at=request.known_at)
                request, now = request._replace(filter=snapshot.limit_to_unchanged(request.filter)), snapshot.at
            reader = Reader(ctx, session, request.filter, now)
            known_speakers = find_speakers(reader, query)
            if embedder := _query_embedder(ctx, request, query):
                prefetched.start(embedder, _text_to_embed(query, find_asked_speakers(query, known_speakers)))
            dim = _check_dimension(ctx, session, request)
            due = _find_due(ctx, session, request, now)
            model, is_complete = embedder.model if embedder and dim else None, len(due) <= MAX_FRESH
            lexical = find_lexical_hits(
                reader,
                query,
                known_speakers,
                model,
                excluded=request.excluded,
                beside_vectors=bool(model) and is_complete,
            )
        vector, fresh, degraded = _embed_query(ctx, request, query, lexical, due, dim, prefetched)
    if snapshot is not None and snapshot.degraded is not None:
        degraded = snapshot.degraded
    return PreparedQuery(request, query, lexical, vector, fresh, degraded, now, snapshot)


class Ranking(NamedTuple):
    """The ranked candidates of a query."""

    pool: Candidates
    nearest_ids: list[str]
    entries: list[ranking.RankedMemory]
    """Best first."""


def build_ranking(reader: Reader, prepared: PreparedQuery, *, every: bool = False, also: Sequence[str] = ()) -> Ranking:
    """Rank the candidates: as many as the hits need, or every one. Memories in `also` are always candidates."""
    nearest = _find_nearest(reader, prepared, prepared.vector) if prepared.vector else ChannelHits([], [], {})
    before = _find_past(reader, prepared, also) if prepared.snapshot else NO_PAST
    dated_ids = [
        id for id in find_dated(reader, prepared.query, prepared.lexical) if id not in prepared.request.excluded
    ]
    pool = find_candidates(
        reader, prepared.query, prepared.lexical, prepared.vector, prepared.fresh, nearest, (*dated_ids, *also), before
    )
    limit = None if every else count_to_rank(prepared.request, pool)
    found = ranking.rank_candidates(pool.candidates, pool.neighbours, pool.stems, pool.scope, reader.now, limit=limit)
    return Ranking(pool, nearest.ids, found)


def count_to_rank(request: RecallRequest, pool: Candidates) -> int:
    """Number of candidates to rank: more than the limit, because duplicates do not become hits."""
    return OVERSAMPLING * request.limit + len(pool.asking_prompts)


NO_EMBEDDINGS = "No current embeddings from this model: results are from keywords only."


def _check_dimension(ctx: Context, session: Session, request: RecallRequest) -> int | None:
    """Return the dimension of the configured model. Raise if a vector of the caller does not fit its model."""
    if request.embedding is not None:
        embedding_store.check_model_dimension(session, request.embedding)
    return (
        embedding_store.get_dimension(session, ctx.embedder.model)
        if ctx.embedder and request.embedding is None
        else None
    )


def _find_due(ctx: Context, session: Session, request: RecallRequest, now: int) -> list[DueMemory]:
    """List memories without embeddings, up to one more than recall embeds itself."""
    if ctx.embedder is None or request.embedding is not None:
        return []
    model = ctx.embedder.model
    mark = embedding_store.get_watermark(session, model)
    return embedding_store.list_visible_due(
        session,
        ctx.caller,
        request.filter,
        now,
        model,
        mark,
        limit=MAX_FRESH + 1,
        max_entries=embedding_service.MAX_ENTRIES,
    )


def _query_embedder(ctx: Context, request: RecallRequest, query: Query) -> Embedder | None:
    """Return the embedder for the query. None if the caller gave a vector or the query has no words."""
    return ctx.embedder if request.embedding is None and query.words else None


def _text_to_embed(query: Query, speakers: Sequence[str]) -> str:
    """Return the text of the query that is embedded."""
    return (rewrite_in_first_person(query.text, speakers) if query.english else query.text)[:MAX_QUERY_CHARACTERS]


def _embed_query(
    ctx: Context,
    request: RecallRequest,
    query: Query,
    lexical: LexicalHits,
    due: Sequence[DueMemory],
    dim: int | None,
    prefetched: QueryEmbedding,
) -> tuple[Embedding | None, list[PassageEmbedding], str | None]:
    """Embed the query and the newest memories, outside of any transaction. Also return why anything is missing."""
    embedder = _query_embedder(ctx, request, query)
    if embedder is None:
        return request.embedding, [], None if query.words or request.embedding else NO_WORDS
    try:
        vector = prefetched.get_vector(embedder, _text_to_embed(query, lexical.speakers))
        if vector is None:
            return None, [], UNKNOWN_WORDS
        if dim not in (None, vector.dim):
            raise EmbedderFailed(
                f"{embedder.model} returned {vector.dim} dimensions; its stored embeddings have {dim}."
            )
        if len(due) > MAX_FRESH:
            return Embedding(embedder.model, vector), [], EMBEDDINGS_PENDING
        fresh_embeddings = embedding_service.embed_memories(ctx, embedder, due, ctx.now()) if due else {}
    except EmbedderFailed as error:
        return None, [], f"Keyword search only. {error.message}"
    return Embedding(embedder.model, vector), [one for many in fresh_embeddings.values() for one in many], None


NO_WORDS = "The query has no words to search for."
MAX_QUERY_CHARACTERS = 4000
"""Characters of a query that are embedded."""
UNKNOWN_WORDS = "Keyword search only: the embedding model does not know the words of the query."
EMBEDDINGS_PENDING = "Many new memories have no embeddings yet. Run `holdfast reembed` to compute them."


def _find_nearest(reader: Reader, prepared: PreparedQuery, embedding: Embedding) -> ChannelHits:
    """Find the memories with the nearest passages, nearest first, including those embedded just now."""
    fresh = compute_cosines(embedding, [one for one in prepared.fresh if one.begins != REPLY])

    def find(limit: int) -> list[str]:
        found = embedding_store.find_nearest(
            reader.session, reader.ctx.caller, embedding, reader.filter, reader.now, limit=limit
        )
        near = dict(found) | {id: max(passages.values()) for id, passages in fresh.items()}
        return [id for id in sorted(near, key=lambda id: (-near[id], id)) if near[id] >= ranking.RELATED]

    lexical = prepared.lexical
    return read_channel(
        reader,
        prepared.query,
        find,
        lexical.breadth.nearest,
        excluded=prepared.request.excluded,
        known_rows=lexical.rows,
    )


def _find_past(reader: Reader, prepared: PreparedQuery, also: Sequence[str]) -> PastCandidates:
    """Find matching memories that have changed since, in their past state."""
    assert prepared.snapshot is not None
    which = replace(reader.filter, unchanged_since=None, true_at=None)
    stems, most = tuple(prepared.lexical.stems), prepared.lexical.breadth.lexical
    found = recall_snapshot.find_past_candidates(
        reader.ctx, reader.session, prepared.snapshot, which, stems, prepared.vector, most, also
    )
    return found._replace(rows={id: row for id, row in found.rows.items() if id not in prepared.request.excluded})


def order_hits(entries: Sequence[ranking.RankedMemory], pool: Candidates) -> list[ranking.RankedMemory]:
    """Drop memories with a score of 0 or less; place superseded memories after their successors."""
    positive = [one for one in entries if one.score > 0]
    places = {one.id: place for place, one in enumerate(positive)}

    def place(one: ranking.RankedMemory) -> tuple[int, int]:
        by = places.get(pool.superseded_by.get(one.id, ""), -1)
        return (max(by, places[one.id]), int(by >= places[one.id]))

    return sorted(positive, key=place)


def _add_conflict_losers(reader: Reader, prepared: PreparedQuery) -> PreparedQuery:
    """Add memories that match only by the losing side of a conflict."""
    if prepared.snapshot is not None:
        return prepared
    query_stems, known = set(prepared.lexical.stems), prepared.lexical.rows.keys() | set(prepared.request.excluded)
    lost = list_lost_contents(reader.ctx, reader.session)
    lost_texts = {
        one.memory: one.text
        for one in lost
        if one.memory not in known and query_stems & set(index_terms.index_tokens(one.text))
    }
    rows = (
        search_index.read_rows(reader.session, reader.ctx.caller, list(lost_texts), reader.filter, reader.now)
        if lost_texts
        else []
    )
    others = {row.id: replace(row, parsed=terms_of_line(lost_texts[row.id])) for row in rows}
    return (
        prepared._replace(lexical=prepared.lexical._replace(rows=prepared.lexical.rows | others))
        if others
        else prepared
    )


def build_hits(
    reader: Reader, order: Sequence[ranking.RankedMemory], pool: Candidates, request: RecallRequest
) -> list[Hit]:
    """Build the first hits after duplicates are folded."""
    chosen, like = fold_duplicates(order, pool, request.limit)
    view: memories.View = "kept" if request.filter.archived else "live"
    past = {one.id: pool.past_memories[one.id] for one in chosen if one.id in pool.past_memories}
    rows = [one.id for one in chosen if one.id not in past]
    read = memories.by_ids(reader.session, reader.ctx.caller, rows, reader.now, view) | past
    present = request.as_of is None and request.known_at is None
    stale = invalidations.find_stale(reader.session, reader.ctx.caller, rows if present else [], reader.now)
    shown = _make_non_increasing([one.score for one in chosen])
    return [
        Hit(
            memory=read[one.id],
            score=round(score / shown[0], 6),
            ranked=one,
            like=tuple(like[one.id]),
            superseded_by=pool.superseded_by.get(one.id),
            used=pool.uses.get(one.id, (0, 0)),
            has_passages=len(pool.rows[one.id].parsed.passages) > 1,
            stale=stale.get(one.id),
        )
        for one, score in zip(chosen, shown, strict=True)
        if one.id in read
    ]


def find_matched_words(memory: Memory, stems: Sequence[str], query_text: str) -> list[str]:
    """List the query words that a memory contains, as written in it."""
    text = "\n".join((memory.title, memory.content, *memory.tags))
    found = index_terms.matching_words(query_text, stems) | index_terms.matching_words(text, stems)
    return list(dict.fromkeys(word for stem in stems for word in found.get(stem, [stem])))


def _make_non_increasing(scores: Sequence[float]) -> list[float]:
    """Raise scores so that none is below a later one: a successor scores at least as much as what it supersedes."""
    return list(accumulate(reversed(scores), max))[::-1]


def fold_duplicates(
    order: Sequence[ranking.RankedMemory], pool: Candidates, limit: int
) -> tuple[list[ranking.RankedMemory], dict[str, list[str]]]:
    """Return the first distinct memories, and the duplicates of each.

    A memory with its own time (`occurred_at`) is never a duplicate. A prompt is, whatever its time.
    """
    chosen: list[ranking.RankedMemory] = []
    like: dict[str, list[str]] = {}
    seen: dict[tuple[bool, tuple[str, ...]], str] = {}
    for one in order:
        row, is_prompt = pool.rows[one.id], one.id in pool.asking_prompts
        timeless = is_prompt or row.occurred_at is None
        words = _distinctive_words(row, FRAME_STEMS if is_prompt else COMMON_STEMS) if timeless else ()
        alone = timeless and one.id not in pool.superseded_by
        twin = seen.get((is_prompt, words)) if alone and len(words) >= (1 if is_prompt else MIN_SHARED_WORDS) else None
        if twin is not None and pool.rows[twin].speaker == row.speaker:
            like[twin].append(one.id)
        elif len(chosen) < limit:
            chosen.append(one)
            like[one.id] = []
            if timeless:
                seen[is_prompt, words] = one.id
        else:
            break
    return chosen, like


def _distinctive_words(row: Row, common: Collection[str]) -> tuple[str, ...]:
    """Return the words that distinguish a memory; a negation, a number or a name counts."""
    return tuple(sorted(stem for line in row.parsed.passages for stem in line.stems.split() if stem not in common))
