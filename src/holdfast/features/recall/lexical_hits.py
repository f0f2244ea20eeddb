"""Search by keywords while a model embeds the query: the hits, and what ranking needs of them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.embeddings import service as embedding_service
from holdfast.features.embeddings import store as embedding_store
from holdfast.features.embeddings.service import MAX_FRESH
from holdfast.features.embeddings.store import DueMemory, PassageEmbedding
from holdfast.features.history.snapshot import Snapshot, open_snapshot
from holdfast.features.memories.store import EVERYTHING, Filter
from holdfast.features.recall import search_index
from holdfast.features.recall.captured_prompts import find_repeated_prompts
from holdfast.features.recall.features import Scope
from holdfast.features.recall.query import (
    Query,
    QueryEmbedding,
    RecallRequest,
    find_asked_speakers,
    parse_query,
    rewrite_in_first_person,
)
from holdfast.features.recall.search_index import AdjacentRows, CorpusStats, Row, StoredVectors
from holdfast.kernel.context import Context
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.errors import EmbedderFailed
from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.index_terms import IndexTerms, pad
from holdfast.kernel.storage.port import Session
from holdfast.kernel.vector import Embedding

SMALL_STORE = 8000
"""With more memories than this, fewer candidates are read."""


class Breadth(NamedTuple):
    """How many memories are read for a query."""

    lexical: int
    """By keywords."""
    nearest: int
    """By vectors."""
    leading: int
    """Memories after this many of the best lexical hits are candidates too: an answer need not repeat the words."""
    leading_nearest: int = 10


WIDE = Breadth(100, 30, 50)
NARROW = Breadth(30, 30, 10)
MAX_PER_CHANNEL = 2000
"""Maximum read per channel, however many of them only repeat the query."""
MAX_NAMES = 16
MAX_RARE_MEMORIES = 5
"""A word in at most this many memories makes all of them candidates, even long ones that the index ranks low."""
MAX_QUERY_CHARACTERS = 4000
"""Characters of a query that are embedded."""
NO_WORDS = "The query has no words to search for."
UNKNOWN_WORDS = "Keyword search only: the embedding model does not know the words of the query."
NO_EMBEDDINGS = "No current embeddings from this model: results are from keywords only."
EMBEDDINGS_PENDING = "Many new memories have no embeddings yet. Run `holdfast admin reembed` to compute them."
PaddedStems = dict[str, str]
"""Each query stem, by the form in which it occurs in parsed text."""


class Reader(NamedTuple):
    """What the reads of one query share: caller, session, filter, time."""

    ctx: Context
    session: Session
    filter: Filter
    now: int


class TermCounts(NamedTuple):
    """How often each query stem occurs in a memory's labels and in each of its passages."""

    labels: dict[str, int]
    passages: list[dict[str, int]]


class LexicalHits(NamedTuple):
    """What keyword search found."""

    breadth: Breadth
    plan: search_index.FtsPlan
    """The plan that was run against the index."""
    ids: list[str]
    """Ids, best first."""
    rows: dict[str, Row]
    stems: dict[str, str]
    """Each query stem, with a word that has it."""
    term_counts: dict[str, TermCounts]
    """Counts for each hit, computed while the query is embedded."""
    speakers: tuple[str, ...]
    """Speakers that the query names, in its order; or those of the role it asks about."""
    scope: Scope
    adjacent: dict[int, AdjacentRows]
    """The rows before and after each hit."""
    stored_vectors: StoredVectors
    """Stored embeddings of the hits, from the model that embeds the query."""
    repeated_prompts: list[str]
    """Prompts among the hits that only repeat the query."""


class KeywordSearch(NamedTuple):
    """The lexical hits of a query, and the embedding that was computed meanwhile."""

    request: RecallRequest
    query: Query
    lexical: LexicalHits
    vector: Embedding | None
    fresh: list[PassageEmbedding]
    """Embeddings of new memories, not stored yet."""
    degraded: str | None
    """Why something is missing."""
    now: int
    """The time at which filters apply; in the past for a query about the past."""
    snapshot: Snapshot | None


def parse_request(ctx: Context, request: RecallRequest, now: int) -> Query:
    """Parse the query of a request while the embedding model starts to load."""
    if ctx.embedder is not None and not ctx.embedder.is_loaded and request.embedding is None:
        ctx.embedder.warm()
    return parse_query(request.text, now if request.now is None else request.now, request.utc_offset)


def search_keywords(ctx: Context, request: RecallRequest, query: Query, now: int) -> KeywordSearch:
    """Find the lexical hits of a query while a model embeds it."""
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
            dim, due = _find_due(ctx, session, request, now)
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
    return KeywordSearch(request, query, lexical, vector, fresh, degraded, now, snapshot)


def _find_due(ctx: Context, session: Session, request: RecallRequest, now: int) -> tuple[int | None, list[DueMemory]]:
    """Return the dimension of the configured model, and memories without embeddings: at most one more than recall
    embeds itself. Raise if a vector of the caller does not fit its model."""
    if request.embedding is not None:
        embedding_store.check_model_dimension(session, request.embedding)
    if ctx.embedder is None or request.embedding is not None:
        return None, []
    model = ctx.embedder.model
    dim, watermark = search_index.read_embedding_state(session, model)
    most, entries = MAX_FRESH + 1, embedding_service.MAX_ENTRIES
    return dim, search_index.list_due(
        session, ctx.caller, request.filter, now, model, watermark, limit=most, max_entries=entries
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


def map_stems(words: Sequence[str]) -> dict[str, str]:
    """Map each stem to a word that has it."""
    return {stem: word for word in words for stem in index_terms.stems(word)}


def find_speakers(reader: Reader, query: Query) -> set[str]:
    """Find the speakers with a name that occurs in the query."""
    return search_index.find_speakers(
        reader.session, reader.ctx.caller, _list_possible_names(query), reader.filter, reader.now
    )


def find_lexical_hits(
    reader: Reader,
    query: Query,
    known_speakers: set[str],
    model: str | None,
    *,
    excluded: Collection[str] = (),
    beside_vectors: bool = False,
) -> LexicalHits:
    """Run the keyword search, and find which speakers the query names.

    It also reads the embeddings of the hits, while a model embeds the query. `beside_vectors`: every memory has
    embeddings, so keywords need not find everything.
    """
    session = reader.session
    last_row = session.newest_row()
    breadth = WIDE if last_row <= SMALL_STORE else NARROW
    plan = search_index.plan_query(session, query.words, last_row, beside_vectors=beside_vectors)
    stems = map_stems(query.words)
    padded_stems = pad_stems(stems)
    document_counts = plan.document_counts or session.document_frequencies(list(stems), last_row)
    ids, repeated, rows = read_channel(reader, query, _make_finder(reader, plan), breadth.lexical, excluded=excluded)
    term_counts = {id: count_query_stems(row.parsed, padded_stems) for id, row in rows.items()}
    if missed_words := _find_missed_rare_words(stems, document_counts, term_counts.values()):
        find = _make_finder(reader, search_index.FtsPlan(missed_words))
        more = read_channel(reader, query, find, breadth.lexical, excluded={*excluded, *rows})
        ids, repeated, rows = [*ids, *more.ids], [*repeated, *more.repeated_prompts], rows | more.rows
        term_counts |= {id: count_query_stems(row.parsed, padded_stems) for id, row in more.rows.items()}
    named_speakers = find_asked_speakers(query, known_speakers | _collect_speakers(rows.values()))
    scope = _read_scope(reader, query, stems, named_speakers, last_row, document_counts)
    around = find_adjacent_rows(reader, rows.values())
    stored = search_index.read_vectors(session, rows, model) if model else {}
    return LexicalHits(breadth, plan, ids, rows, stems, term_counts, named_speakers, scope, around, stored, repeated)


def _make_finder(reader: Reader, plan: search_index.FtsPlan) -> Callable[[int], list[str]]:
    """Return a function that finds the best matches of a plan, up to a limit."""
    ctx, session, which, now = reader
    return lambda limit: [
        hit.id for hit in search_index.find_matches(session, ctx.caller, plan, which, now, limit=limit)
    ]


def _find_missed_rare_words(
    words: Mapping[str, str], held: Mapping[str, int], found: Collection[TermCounts]
) -> tuple[str, ...]:
    """List rare query words of which not all memories were found."""
    rare = [stem for stem in words if 0 < held.get(stem, 0) <= MAX_RARE_MEMORIES]
    found_counts = {
        stem: sum(stem in counts.labels or any(stem in one for one in counts.passages) for counts in found)
        for stem in rare
    }
    return tuple(words[stem] for stem in rare if found_counts[stem] < held[stem])


class ChannelHits(NamedTuple):
    """What one channel found, best first: new memories, and prompts that only repeat the query."""

    ids: list[str]
    repeated_prompts: list[str]
    rows: dict[str, Row]
    """Rows of both."""


def read_channel(
    reader: Reader,
    query: Query,
    find: Callable[[int], Sequence[str]],
    max_ids: int,
    *,
    excluded: Collection[str],
    known_rows: Mapping[str, Row] = {},
) -> ChannelHits:
    """Read what a channel finds; read more if prompts that repeat the query take half of the places."""
    limit, rows = max_ids, dict(known_rows)
    while True:
        found = find(limit)
        ids = [id for id in found if id not in excluded]
        rows |= read_rows_in_order(reader, [id for id in ids if id not in rows])
        ids = [id for id in ids if id in rows]
        prompts = [rows[id] for id in ids if rows[id].kind == "conversation"]
        repeated = find_repeated_prompts(query, reader.filter, prompts) if prompts else []
        if len(found) < limit or 2 * len(repeated) < limit or 4 * limit > MAX_PER_CHANNEL:
            break
        limit *= 4
    others = set(repeated)
    new = [id for id in ids if id not in others]
    if limit > max_ids:
        new, repeated = new[:max_ids], repeated[:max_ids]
    return ChannelHits(new, repeated, {id: rows[id] for id in (*new, *repeated)})


def _list_possible_names(query: Query) -> list[str]:
    """List words of the query that may be names: capitalised in it, or any word if it has no capitals."""
    names = [word.capitalize() for word in query.words[:MAX_NAMES] if word.isalpha()]
    return [name for name in names if name in query.text] if query.text != query.text.lower() else names


def _collect_speakers(rows: Iterable[Row]) -> set[str]:
    """Collect the speakers of memories and of their passages."""
    names = {row.speaker for row in rows if row.speaker}
    return names | {line.speaker for row in rows for line in row.parsed.passages if line.speaker}


def read_rows_in_order(reader: Reader, ids: Sequence[str]) -> dict[str, Row]:
    """Read the memories that pass the filter, in the given order."""
    if not ids:
        return {}
    read = search_index.read_rows(reader.session, reader.ctx.caller, ids, reader.filter, reader.now)
    found = {row.id: row for row in read}
    return {id: found[id] for id in ids if id in found}


def find_adjacent_rows(reader: Reader, rows: Iterable[Row]) -> dict[int, AdjacentRows]:
    """Find the rows before and after the memories that are in a thread."""
    return search_index.find_adjacent(reader.session, [row.rowno for row in rows if row.thread_key])


def _read_scope(
    reader: Reader,
    query: Query,
    stems: dict[str, str],
    speakers: tuple[str, ...],
    last_row: int,
    document_counts: Mapping[str, int],
) -> Scope:
    """Read how rare the query words are within the filter, and which of them are names."""
    ctx, session, which, now = reader
    narrow = "*" not in ctx.caller.namespaces or replace(which, archived=False) != EVERYTHING
    stats = ctx.local[CorpusStats]
    counts = search_index.read_corpus_counts(
        session,
        ctx.caller,
        stems,
        which,
        now,
        stats,
        is_narrow=narrow,
        last_row=last_row,
        document_counts=document_counts,
    )
    people = {stem for name in speakers for stem in index_terms.stems(name)}
    events = tuple((event, frozenset(map_stems(event.words))) for event in query.events)
    return Scope(*counts, names=frozenset(people & set(stems)), speakers=speakers, events=events)


def pad_stems(stems: Iterable[str]) -> PaddedStems:
    return {pad(stem): stem for stem in stems}


def count_query_stems(parsed: IndexTerms, padded_stems: PaddedStems) -> TermCounts:
    present = find_present_stems(parsed.text, padded_stems)
    return TermCounts(
        count_stems(parsed.labels, present, padded_stems),
        [count_stems(line.stems, present, padded_stems) for line in parsed.passages],
    )


def find_present_stems(text: str, padded_stems: PaddedStems) -> list[str]:
    """List the query stems in a parsed text; the others need not be counted in its parts."""
    return [padded for padded in padded_stems if padded in text]


def count_stems(stems: str, present: Sequence[str], padded_stems: PaddedStems) -> dict[str, int]:
    """Count the given stems in a part of a parsed text."""
    return (
        {padded_stems[padded]: count for padded in present if (count := stems.count(padded))}
        if present and stems
        else {}
    )
