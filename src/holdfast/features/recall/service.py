"""Search memories by meaning and keywords, best match first. Writes nothing."""

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.memories import store as memories
from holdfast.features.memories.access_log import AccessLog
from holdfast.features.memories.find_memories import list_lost_contents
from holdfast.features.recall import budget, ranking, search_index
from holdfast.features.recall.candidates import Candidates, _find_nearest, _find_past, find_candidates, find_dated
from holdfast.features.recall.captured_prompts import FRAME_STEMS
from holdfast.features.recall.lexical_hits import NO_EMBEDDINGS, ChannelHits, PreparedQuery, Reader, prepare_query
from holdfast.features.recall.query import Query, RecallRequest
from holdfast.features.recall.recall_log import PendingRecall, RecallLog
from holdfast.features.recall.recall_snapshot import NO_PAST
from holdfast.features.recall.search_index import Row
from holdfast.features.reflections import invalidation_store as invalidations
from holdfast.features.reflections.invalidation_store import StaleReason
from holdfast.kernel.context import Context
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.index_terms import terms_of_line
from holdfast.kernel.text.words import STOP

OVERSAMPLING = 2
"""Rank this many times the requested number, because duplicates are dropped afterwards."""
COMMON_STEMS = frozenset(stem for word in STOP for stem in index_terms.stems(word))
"""Stems that are ignored when two memories are compared."""
MIN_SHARED_WORDS = 5
"""Fewer distinctive words never make two memories duplicates."""


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
