"""Explain why recall does not return a memory: a filter, a search that missed it, or its score."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from holdfast.features.history import snapshot as history_snapshot
from holdfast.features.history.snapshot import PastMemory
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import EVERYTHING, Filter, View, normalize_filter
from holdfast.features.recall import search_index
from holdfast.features.recall.candidates import Candidates, find_candidates
from holdfast.features.recall.features import RELATED
from holdfast.features.recall.lexical_hits import KeywordSearch, Reader, parse_request, search_keywords
from holdfast.features.recall.query import RecallRequest
from holdfast.features.recall.ranking import RankedMemory, Ranking, rank_features
from holdfast.features.recall.search_index import Row
from holdfast.features.recall.service import (
    Hit,
    PackResult,
    build_hits,
    compute_features,
    count_to_rank,
    fold_duplicates,
    order_hits,
)
from holdfast.kernel.context import Context
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import to_emoji
from holdfast.kernel.timestamps import format_timestamp
from holdfast.kernel.vector import Embedding

Pick = Callable[[list[Hit]], tuple[list[Hit], PackResult]]
"""Chooses the hits to return."""


class Reason(NamedTuple):
    code: str
    message: str


class Explanation(NamedTuple):
    """Why a query does or does not return a memory."""

    memory: Memory
    returned: bool
    reasons: list[Reason]
    place: int | None = None
    """Its place among the hits, or else among all candidates without a limit."""
    ranked: RankedMemory | None = None
    last_score: float | None = None
    """Score of the last returned hit."""
    candidates: int | None = None
    degraded: str | None = None


def explain_absence(ctx: Context, id: str, request: RecallRequest, pick: Pick) -> Explanation:
    """Explain why a memory is not among the hits, or at which place it is. Writes nothing and counts no access."""
    request = request._replace(filter=normalize_filter(request.filter))
    with ctx.reading() as session:
        state = PastMemory(memories.resolve(session, ctx.caller, id, ctx.now(), view="any"), has_same_text=True)
        if request.as_of is None and request.known_at is None:
            filtered = list(_find_excluding_filters(ctx, session, state.memory, request.filter, ctx.now()))
        else:
            state, filtered = _read_past_state(ctx, session, state, request)
    memory = state.memory
    if memory.id in request.excluded:
        filtered.append(
            Reason("standard", "It is a standard of the namespace: returned with the answer, not as a hit.")
        )
    if filtered:
        return Explanation(memory, returned=False, reasons=filtered)
    now = ctx.now()
    search = search_keywords(ctx, request, parse_request(ctx, request, now), now)
    return _explain_rank(ctx, state, search, pick)


# Filters


def _find_excluding_filters(
    ctx: Context, session: Session, memory: Memory, which: Filter, now: int
) -> Iterator[Reason]:
    """List every part of the filter that excludes a memory; each is tested separately."""
    if not _passes(ctx, session, memory, Filter(archived=which.archived), now, "live"):
        yield _explain_state(memory)
    for name, part in _split_filter(which):
        if not _passes(ctx, session, memory, part, now, "any"):
            yield Reason(name, _FILTER_MESSAGES[name](memory, part))


def _passes(ctx: Context, session: Session, memory: Memory, which: Filter, now: int, view: View) -> bool:
    parts, params = memories.filter_clauses(ctx.caller, which, now, view)
    return bool(session.select(("memory_ids", *parts, "memory.one"), params | {"id": memory.id}))


def _read_past_state(
    ctx: Context, session: Session, current: PastMemory, request: RecallRequest
) -> tuple[PastMemory, list[Reason]]:
    """Return a memory's state at the time of the query, and what excluded it then."""
    when = history_snapshot.open_snapshot(session, ctx.now(), as_of=request.as_of, known_at=request.known_at)
    known = history_snapshot.read_past_memory(session, ctx.caller, when._replace(true_at=None), current.memory.id)
    if known is None:
        return current, [Reason("unknown_then", "This store had no version visible to you at that time.")]
    state = history_snapshot.read_past_memory(session, ctx.caller, when, current.memory.id)
    if state is None:
        return known, [Reason("untrue_then", "No version of it was valid at that time.")]
    return state, list(_find_past_exclusions(state.memory, request.filter, when.at))


def _find_past_exclusions(memory: Memory, which: Filter, at: int) -> Iterator[Reason]:
    """List every part of the filter that excludes a past state."""
    if not history_snapshot.is_alive(memory, at, archived=which.archived):
        yield _explain_state(memory)
    for name, part in _split_filter(which):
        if not history_snapshot.matches_any_state(memory, part):
            yield Reason(name, _FILTER_MESSAGES[name](memory, part))


def _split_filter(which: Filter) -> Iterator[tuple[str, Filter]]:
    """Split a filter into one filter per part; every tag is a part."""
    for name in _FILTER_MESSAGES:
        value = getattr(which, name)
        if name == "tags":
            yield from ((name, Filter(tags=(tag,))) for tag in value)
        elif value != getattr(EVERYTHING, name):
            yield name, Filter(**{name: value})


def _explain_state(memory: Memory) -> Reason:
    match memory.state:
        case "deleted":
            return Reason("deleted", "Deleted. `holdfast history` shows the change, `holdfast undo` reverts it.")
        case "archived":
            return Reason("archived", "Archived. Use include_archived to find it.")
        case _:
            return Reason("expired", "Expired. Use include_archived to find it.")


_FILTER_MESSAGES: dict[str, Callable[[Memory, Filter], str]] = {
    "namespace": lambda memory, which: f"It is in `{memory.namespace}`, not in `{which.namespace}`.",
    "namespaces": lambda memory, which: (
        f"It is in `{memory.namespace}`; the search covered `{which.namespaces[0]}` and its parents."
    ),
    "under": lambda memory, which: f"It is in `{memory.namespace}`, not below `{which.under}`.",
    "tier": lambda memory, which: f"Its tier is {memory.tier}, not {which.tier}.",
    "agent": lambda memory, which: f"It is by {memory.agent}, not by {which.agent}.",
    "min_priority": lambda memory, which: f"Its priority is {memory.priority}, below {which.min_priority}.",
    "since": lambda memory, which: f"It was stored at {format_timestamp(memory.created_at)}, before `since`.",
    "until": lambda memory, which: f"It was stored at {format_timestamp(memory.created_at)}, after `until`.",
    "tags": lambda memory, which: f"It does not have the tag {which.tags[0]}.",
    "kinds": lambda memory, which: f"Its kind is {memory.kind}, not {' or '.join(which.kinds)}.",
    "has_citations": lambda memory, which: "It has no citations.",
    "source_uri": lambda memory, which: f"Its source is {memory.source_uri or 'not known'}.",
    "source_uri_prefix": lambda memory, which: f"Its source is {memory.source_uri or 'not known'}.",
    "confidence": lambda memory, which: f"Its confidence is {memory.confidence:g}, outside the requested tier.",
    "as_agent": lambda memory, which: (
        f"It is not visible to `{which.as_agent}`: scope {memory.scope}, namespace `{memory.namespace}`."
    ),
}


# The order

REPEATS_QUERY = Reason(
    "repeats_question", "It is a prompt that only repeats the query. Use the kind conversation to include prompts."
)


def _explain_rank(ctx: Context, state: PastMemory, search: KeywordSearch, pick: Pick) -> Explanation:
    memory = state.memory
    with ctx.reading() as session:
        reader = Reader(ctx, session, search.request.filter, search.now)
        pool = find_candidates(reader, search)
        ranking = rank_features(compute_features(pool), reader.now)
        count = len(pool.candidates)
        hits = build_hits(reader, ranking[: count_to_rank(search.request, pool)], pool, search.request)
        missed: list[Reason] = []
        if memory.id not in pool.rows:
            nearest, pool = pool.nearest_ids, find_candidates(reader, search, also=[memory.id])
            ranking = rank_features(compute_features(pool), reader.now)
            missed = list(_explain_missed(reader, state, search, ranking, pool, nearest))
    kept, _ = pick(hits)
    places = {hit.memory.id: place for place, hit in enumerate(kept, 1)}
    last_score = kept[-1].ranked.score if kept else None
    if memory.id in pool.repeated_prompts:
        return Explanation(memory, False, [REPEATS_QUERY], None, None, last_score, count, search.degraded)
    why = next((one for one in ranking if one.id == memory.id), None)
    if memory.id in places:
        reason = Reason("returned", f"It is returned, at place {places[memory.id]} of {len(kept)}.")
        return Explanation(memory, True, [reason], places[memory.id], why, last_score, count, search.degraded)
    dropped = {hit.memory.id for hit in hits} - places.keys()
    place, before = _find_place(memory, search.request, ranking, pool, last_score, dropped)
    within = before[0].code == "limit" and place is not None and place <= search.request.limit
    reasons = missed if missed and within else [*missed, *before]
    return Explanation(memory, False, reasons, place, why, last_score, count, search.degraded)


def _find_place(
    memory: Memory,
    request: RecallRequest,
    ranking: Ranking,
    pool: Candidates,
    last_score: float | None,
    dropped: Collection[str],
) -> tuple[int | None, list[Reason]]:
    """Return its place without a limit, and what keeps it out; `dropped` are the hits that exceed the budget."""
    order = order_hits(ranking, pool)
    chosen, like = fold_duplicates(order, pool, len(order))
    places = {one.id: place for place, one in enumerate(chosen, 1)}
    twin = next((id for id, others in like.items() if memory.id in others), None)
    if twin is not None:
        reason = Reason("folded", f"It is a duplicate of {twin}, which has place {places[twin]}.")
        return places[twin], [reason, _over_budget(f"{twin} has", places[twin])] if twin in dropped else [reason]
    place = places.get(memory.id)
    if place is None:
        return None, [Reason("unrelated", "It does not match the query: its score is not above 0.")]
    if memory.id in dropped:
        return place, [_over_budget("It has", place)]
    score = next(one.score for one in chosen if one.id == memory.id)
    beside = "" if last_score is None else f"; the last hit has {last_score:.3f}"
    message = f"It has place {place} with a score of {score:.3f}{beside}. The limit is {request.limit}."
    return place, [Reason("limit", message)]


def _over_budget(subject: str, place: int) -> Reason:
    return Reason("budget", f"{subject} place {place}, but exceeds the token budget.")


# The channels


def _explain_missed(
    reader: Reader,
    state: PastMemory,
    search: KeywordSearch,
    ranking: Ranking,
    pool: Candidates,
    nearest_ids: Sequence[str],
) -> Iterator[Reason]:
    """Explain why neither keyword nor vector search found it."""
    id = state.memory.id
    why = next((one for one in ranking if one.id == id), None)
    yield _explain_lexical_miss(search, why.terms if why else ())
    pieces = [piece for one in pool.candidates if one.id == id for piece in one.pieces]
    cosine = max((piece.cosine for piece in pieces if piece.cosine is not None), default=None)
    if not state.has_same_text and search.vector is not None:
        yield Reason("no_vector", "Its embeddings are of its current text, not of its text at that time.")
    else:
        yield _explain_vector_miss(reader.session, search, cosine, [pool.rows[one] for one in nearest_ids])


def _explain_lexical_miss(search: KeywordSearch, terms: Sequence[str]) -> Reason:
    words = search.lexical.stems
    if not words:
        return Reason("no_words", "The query has no words to search for.")
    if not terms:
        return Reason("no_words", f"It contains none of the query words: {', '.join(map(to_emoji, words.values()))}.")
    plan, words_held = search.lexical.plan, [words[stem] for stem in terms]
    held = list(map(to_emoji, words_held))
    if not {*plan.rare, *plan.common}.intersection(words_held):
        return Reason("common_words", f"It contains only query words that are too common: {', '.join(held)}.")
    others = search.lexical.breadth.lexical
    return Reason("words", f"It contains {', '.join(held)}, but {others} other memories match the query words better.")


def _explain_vector_miss(
    session: Session, search: KeywordSearch, cosine: float | None, nearest: Sequence[Row]
) -> Reason:
    if search.vector is None:
        return Reason("no_question_vector", search.degraded or "No embedding model is configured: set `embedder`.")
    if cosine is None:
        return Reason(
            "no_vector",
            f"It has no embedding from {search.vector.model} yet. Run `holdfast admin reembed` to compute it.",
        )
    if cosine < RELATED:
        return Reason("far", f"Its embedding is too far from the query: cosine {cosine:.3f}, minimum {RELATED}.")
    return Reason(
        "vectors", f"The cosine of its embedding is {cosine:.3f}; {_describe_nearest(session, search.vector, nearest)}."
    )


def _describe_nearest(session: Session, embedding: Embedding, nearest: Sequence[Row]) -> str:
    """Describe how many memories are nearer, and the cosine of the last of them."""
    near = search_index.compute_nearness(session, embedding, {row.id: row.content_hash for row in nearest[-1:]})
    lowest = max((cosine for passages in near.values() for cosine in passages.values()), default=None)
    return f"{len(nearest)} others are nearer" + ("" if lowest is None else f", the last with {lowest:.3f}")
