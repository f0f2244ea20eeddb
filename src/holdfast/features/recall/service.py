"""Search memories by meaning and keywords, best match first, fitted into a token budget. Writes nothing."""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import AccessLog, normalize_filter
from holdfast.features.recall.candidates import Candidates, add_lost_contents, find_candidates
from holdfast.features.recall.captured_prompts import FRAME_STEMS
from holdfast.features.recall.features import FeatureTable
from holdfast.features.recall.lexical_hits import NO_EMBEDDINGS, Reader, parse_request, search_keywords
from holdfast.features.recall.query import Query, RecallRequest
from holdfast.features.recall.ranking import RankedMemory, Ranking, rank_features
from holdfast.features.recall.recall_log import PendingRecall, RecallLog
from holdfast.features.recall.search_index import Row, list_derived
from holdfast.features.reflections import invalidation_store as invalidations
from holdfast.features.reflections.invalidation_store import StaleReason
from holdfast.kernel.context import Context
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage import index_terms
from holdfast.kernel.text import token_count
from holdfast.kernel.text.words import STOP

OVERSAMPLING = 2
"""Rank this many times the requested number, because duplicates are dropped afterwards."""
COMMON_STEMS = frozenset(stem for word in STOP for stem in index_terms.stems(word))
"""Stems that are ignored when two memories are compared."""
MIN_SHARED_WORDS = 5
"""Fewer distinctive words never make two memories duplicates."""
SAMPLE_CHARACTERS = 20_000
"""Characters of a text from which the tokens of the whole are estimated."""
TOKENS_PER_WORD, TOKENS_PER_BYTE = 1.1, 0.29
"""Tokens per ASCII word, and per byte of other text. Three digits are one token, and so is a run of symbols."""

T = TypeVar("T")


class PackResult(NamedTuple):
    kept: list[object]
    tokens: int
    dropped: int
    overflow: bool
    """The minimum exceeds the budget: what precedes the hits, and the first hit."""
    estimated: bool = False
    """There is no budget: the tokens are estimated from the characters."""


class Hit(NamedTuple):
    memory: Memory
    score: float
    """Relative to the best hit, which has 1."""
    ranked: RankedMemory
    like: tuple[str, ...] = ()
    """Duplicates that were left out."""
    superseded_by: str | None = None
    used: tuple[int, int] = (0, 0)
    """Number of accesses, and time of the last one."""
    has_passages: bool = False
    """The memory has more than one passage."""
    stale: StaleReason | None = None
    """Set if a source of the memory changed."""


class RecallAnswer(NamedTuple):
    id: str | None
    """Id to rate the hits. None if there are no hits, the query is about the past, or it was not logged."""
    hits: list[Hit]
    candidates: int
    packing: PackResult
    by_vectors: bool
    degraded: str | None
    query: Query


def recall(
    ctx: Context, request: RecallRequest, pick: Callable[[list[Hit]], tuple[list[Hit], PackResult]]
) -> RecallAnswer:
    """Find the memories that best answer a query: by keywords, by vectors, and next to either in a thread.

    Filters apply before ranking, ranking before the limit, the limit before the budget. `pick` chooses the hits.
    """
    request, now = request._replace(filter=normalize_filter(request.filter)), ctx.now()
    query = parse_request(ctx, request, now)
    search = search_keywords(ctx, request, query, now)
    with ctx.reading() as session:
        reader = Reader(ctx, session, search.request.filter, search.now)
        candidates = find_candidates(reader, add_lost_contents(reader, search))
        features = compute_features(candidates)
        ranking = rank_features(features, reader.now, limit=count_to_rank(request, candidates))
        hits = build_hits(reader, ranking, candidates, search.request)
    kept, packing = pick(hits)
    is_logged = request.is_recorded and search.snapshot is None
    id = _record_recall(ctx, request, kept, search.now) if is_logged else None
    by_vectors = bool(candidates.nearest_ids) or any(one.ranked.cosine is not None for one in hits)
    degraded = search.degraded or (NO_EMBEDDINGS if search.vector is not None and hits and not by_vectors else None)
    return RecallAnswer(id, kept, len(candidates.candidates), packing, by_vectors, degraded, query)


def compute_features(candidates: Candidates) -> FeatureTable:
    return FeatureTable(candidates.candidates, candidates.neighbours, candidates.stems, candidates.scope)


def count_to_rank(request: RecallRequest, pool: Candidates) -> int:
    """Number of candidates to rank: more than the limit, because duplicates do not become hits."""
    return OVERSAMPLING * request.limit + len(pool.asking_prompts)


def order_hits(ranking: Ranking, pool: Candidates) -> Ranking:
    """Drop memories with a score of 0 or less; place superseded memories after their successors."""
    positive = [one for one in ranking if one.score > 0]
    places = {one.id: place for place, one in enumerate(positive)}

    def place(one: RankedMemory) -> tuple[int, int]:
        by = places.get(pool.superseded_by.get(one.id, ""), -1)
        return (max(by, places[one.id]), int(by >= places[one.id]))

    return sorted(positive, key=place)


def build_hits(reader: Reader, ranking: Ranking, pool: Candidates, request: RecallRequest) -> list[Hit]:
    """Build the first hits: superseded memories after their successors, duplicates folded."""
    chosen, like = fold_duplicates(order_hits(ranking, pool), pool, request.limit)
    view: memories.View = "kept" if request.filter.archived else "live"
    past = {one.id: pool.past_memories[one.id] for one in chosen if one.id in pool.past_memories}
    rows = [one.id for one in chosen if one.id not in past]
    read = memories.by_ids(reader.session, reader.ctx.caller, rows, reader.now, view) | past
    present = request.as_of is None and request.known_at is None
    derived = list_derived(reader.session, rows) if present else []
    stale = invalidations.find_stale(reader.session, reader.ctx.caller, derived, reader.now) if derived else {}
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
    order: Sequence[RankedMemory], pool: Candidates, limit: int
) -> tuple[list[RankedMemory], dict[str, list[str]]]:
    """Return the first distinct memories, and the duplicates of each.

    A memory with its own time (`occurred_at`) is never a duplicate. A prompt is, whatever its time.
    """
    chosen: list[RankedMemory] = []
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


def _record_recall(ctx: Context, request: RecallRequest, hits: Sequence[Hit], now: int) -> str | None:
    """Add the accesses and the recall to the buffers that are flushed later."""
    ctx.local[AccessLog].record(ctx.caller.agent, [hit.memory.id for hit in hits], now)
    if not hits:
        return None
    pending = PendingRecall(ctx.new_id(), now, ctx.caller.agent, request.text, tuple(hit.ranked for hit in hits))
    ctx.local[RecallLog].append(pending)
    return pending.id


def _make_filter_table(wanted: Callable[[str], bool]) -> bytes:
    """Make a translation table that turns all but some ASCII characters into blanks, so the rest can be split."""
    return bytes(byte if byte < 128 and wanted(chr(byte)) else ord(" ") for byte in range(256))


_LETTERS, _DIGITS = _make_filter_table(str.isalpha), _make_filter_table(str.isdigit)
_SIGNS = _make_filter_table(lambda char: char.isprintable() and not char.isalnum() and char != " ")
_HIGH, _WIDE = bytes(range(128, 256)), bytes(range(0xE0, 0xF0))


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text to about 10 %, without the vocabulary."""
    data = text[:SAMPLE_CHARACTERS].encode(errors="replace")
    words, numbers, signs = (data.translate(table).split() for table in (_LETTERS, _DIGITS, _SIGNS))
    ascii = TOKENS_PER_WORD * len(words) + sum(-(-len(number) // 3) for number in numbers) + len(signs)
    return round((ascii + _estimate_non_ascii(data)) * max(1.0, len(text) / SAMPLE_CHARACTERS))


def _estimate_non_ascii(data: bytes) -> float:
    """Estimate tokens beyond ASCII: a three-byte character (most East Asian ones) is one token, other bytes a part."""
    if data.isascii():
        return 0.0
    high, wide = (len(data) - len(data.translate(None, some)) for some in (_HIGH, _WIDE))
    return wide + TOKENS_PER_BYTE * (high - 3 * wide)


def fill_budget(
    items: Iterable[T], render: Callable[[T], str], budget: int | None, *, frame: str = "", before: str = ""
) -> tuple[list[T], PackResult]:
    """Fill a budget with whole hits in the given order. `frame` is the text around them; `before` is always sent.

    Counts cl100k tokens of the hits as sent. Counting stops when a hit exceeds the remaining budget; with none left,
    hits are not even rendered.
    """
    if budget is None:
        kept, packed = pack_items(items, lambda item: estimate_tokens(render(item)), None)
        return kept, packed._replace(
            tokens=packed.tokens + estimate_tokens(frame) + estimate_tokens(before), estimated=True
        )

    def count_tokens(item: T, room: int | None) -> int:
        return 1 if room is not None and room < 1 else token_count.count_tokens(render(item), room)

    return _pack(items, count_tokens, budget, token_count.count_tokens(before), token_count.count_tokens(frame))


def pack_items(items: Iterable[T], measure: Callable[[T], int], budget: int | None) -> tuple[list[T], PackResult]:
    """Fill a budget greedily in order, skipping items that do not fit; at least one, unless the budget is 0."""
    return _pack(items, lambda item, _: measure(item), budget)


def _pack(
    items: Iterable[T], measure: Callable[[T, int | None], int], budget: int | None, before: int = 0, frame: int = 0
) -> tuple[list[T], PackResult]:
    """`measure` gets the remaining budget, or None for an item that is taken whatever its size."""
    kept: list[T] = []
    used = before + frame
    dropped = 0
    for item in items:
        room = None if budget is None or (not kept and budget > 0) else budget - used
        costs = measure(item, room)
        if budget == 0 or (room is not None and costs > room):
            dropped += 1
        else:
            kept.append(item)
            used += costs
    used = used if kept else before
    return kept, PackResult(list(kept), used, dropped, budget is not None and used > budget)
