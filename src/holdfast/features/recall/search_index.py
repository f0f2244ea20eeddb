"""Search the full-text index, and read the rows, neighbours, links, vectors and word counts that recall needs.

Full-text queries stay fast with a million memories. Rare words are looked up everywhere. A very common word is left out
if there are two rarer ones; otherwise it is looked up among the newest memories, or among all if those give too few
hits.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from holdfast.features.embeddings.store import WATERMARK_NAME, DueMemory, Watermark
from holdfast.features.memories.store import (
    EVERYTHING,
    Filter,
    FullTextHit,
    filter_clauses,
    search_words,
    visibility_clauses,
)
from holdfast.features.recall.recall_log import Verdict, compute_utility
from holdfast.kernel.context import Caller
from holdfast.kernel.records.link import Relation
from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.index_terms import IndexTerms, count_terms, decode_terms
from holdfast.kernel.storage.port import Session
from holdfast.kernel.vector import Embedding, cosines

ROW_BUDGET = 5000
"""About this many rows are ranked for a query by keywords alone. In a store of up to twice as many rows, counting words
costs more than it saves, so every word is looked up."""
VECTOR_BUDGET_SHARE = 0.3
"""Share of the budget when vectors are searched too: they find most of what only common words would find."""


class FtsPlan(NamedTuple):
    """The words to look up in the index."""

    rare: tuple[str, ...]
    common: tuple[str, ...] = ()
    since_row: int = 0
    """From this row on, about as many rows as the budget contain the common words."""
    document_counts: Mapping[str, int] = {}
    """Number of memories that contain each stem, if counted."""


def plan_query(
    session: Session, words: Sequence[str], last_row: int | None = None, *, beside_vectors: bool = False
) -> FtsPlan:
    """Choose the words to look up, rarest first. `last_row` is the newest row, if known."""
    last_row = session.newest_row() if last_row is None else last_row
    if last_row <= 2 * ROW_BUDGET:
        return FtsPlan(tuple(words))
    budget = int(ROW_BUDGET * VECTOR_BUDGET_SHARE) if beside_vectors else ROW_BUDGET
    stems = {word: index_terms.stems(word) for word in words}
    held_by = session.document_frequencies([stem for many in stems.values() for stem in many], last_row)
    counts = {word: min((held_by.get(stem, 0) for stem in many), default=0) for word, many in stems.items()}
    rarest = sorted((word for word in words if counts[word]), key=counts.__getitem__)
    rare = rarest[: _count_fitting([counts[word] for word in rarest], budget)]
    common = rarest[len(rare) : 2]
    share = budget / max(budget, sum(counts[word] for word in common))
    return FtsPlan(tuple(rare), tuple(common), int(last_row * (1 - share)), held_by)


def _count_fitting(counts: Iterable[int], budget: int) -> int:
    """Count how many leading items fit into the budget together."""
    total = number = 0
    for count in counts:
        total += count
        if total > budget:
            break
        number += 1
    return number


def find_matches(
    session: Session, caller: Caller, plan: FtsPlan, which: Filter, now: int, *, limit: int
) -> list[FullTextHit]:
    """Find memories with any of the planned words, best first. Filters apply before the limit."""
    found = search_words(session, caller, plan.rare, which, now, limit=limit) if plan.rare else []
    if not plan.common:
        return found
    words = (*plan.rare, *plan.common)
    newest = search_words(session, caller, words, which, now, limit=limit, since_row=plan.since_row)
    found = _merge_best(found, newest)[:limit]
    if len(found) == limit or not plan.since_row:
        return found
    return search_words(session, caller, words, which, now, limit=limit)


def _merge_best(*many: list[FullTextHit]) -> list[FullTextHit]:
    """Merge hits, each once with its best score."""
    hits = sorted((hit for found in many for hit in found), key=lambda hit: -hit.score)
    return list({hit.id: hit for hit in reversed(hits)}.values())[::-1]


LENGTH_SAMPLE = 200
MAX_COUNTED = 5000
"""If a filter matches more memories than this, word rarity is taken from the whole store."""
MAX_FILTERS = 256
RECOUNT_AFTER = 50
"""A filter with very many matches is counted again after this many uses."""
MAX_COUNTED_TERM = 3000
"""A word in more memories than this is not counted within a filter: its share of the whole store is used."""


class Row(Struct, frozen=True, gc=False):
    """The columns of a memory that ranking needs."""

    rowno: int
    id: str
    speaker: str | None
    thread_key: str | None
    occurred_at: int | None
    created_at: int
    updated_at: int
    valid_until: int | None
    priority: int
    confidence: float
    content_hash: str
    kind: str
    parsed: IndexTerms


def _read_row(row: Sequence[Any]) -> Row:
    columns = (*row[:-1], decode_terms(row[-1]))
    return Row(*columns)


class AdjacentRows(NamedTuple):
    """The rows before and after a row in its thread, nearest first."""

    before: int | None
    long_before: int | None
    after: int | None
    long_after: int | None


class CorpusCounts(NamedTuple):
    """Number and mean length of the memories in scope, and how many contain each stem."""

    memories: int
    mean_length: float
    document_counts: dict[str, int]
    document_shares: dict[str, float]
    """Share of all memories of the store that contain a stem."""


def read_rows(session: Session, caller: Caller, ids: Sequence[str], which: Filter, now: int) -> list[Row]:
    """Read the memories among some ids that pass a filter."""
    parts, params = filter_clauses(caller, which, now)
    rows = session.select(("candidate_select", *parts), params | {"ids": list(ids)})
    return [_read_row(row) for row in rows]


def read_numbered_rows(session: Session, caller: Caller, rows: Collection[int], which: Filter, now: int) -> list[Row]:
    """Read memories by row number that pass a filter."""
    if not rows:
        return []
    parts, params = filter_clauses(caller, which, now)
    found = session.select(("candidate_select.numbered", *parts), params | {"rows": list(rows)})
    return [_read_row(row) for row in found]


def list_by_time(session: Session, caller: Caller, which: Filter, now: int, *, forward: bool, limit: int) -> list[str]:
    """List ids of memories that pass a filter, by time, oldest or newest first."""
    parts, params = filter_clauses(caller, which, now)
    order = "memory_by_time.forward" if forward else "memory_by_time.backward"
    return [row[0] for row in session.select(("memory_by_time", *parts, order), params | {"limit": limit})]


class Neighbour(Struct, frozen=True, gc=False):
    """A memory next to another one in a thread."""

    rowno: int
    id: str
    speaker: str | None
    text: str
    """The parsed text."""


def read_neighbours(
    session: Session, caller: Caller, rows: Collection[int], which: Filter, now: int
) -> list[Neighbour]:
    """Read the memories in some rows that the caller may see."""
    if not rows:
        return []
    parts, params = filter_clauses(caller, which, now)
    found = session.select(("neighbour_select", *parts), params | {"rows": list(rows)})
    return [Neighbour(*row) for row in found]


def find_adjacent(session: Session, rows: Iterable[int]) -> dict[int, AdjacentRows]:
    """Find the rows before and after those that are in a thread."""
    numbers = list(rows)
    return (
        {row[0]: AdjacentRows(*row[1:]) for row in session.rows("thread_neighbours", rows=numbers)} if numbers else {}
    )


def find_speakers(session: Session, caller: Caller, names: Iterable[str], which: Filter, now: int) -> set[str]:
    """Find the speakers with one of some names."""
    parts, params = filter_clauses(caller, which, now)
    statement = ("speaker_select", *parts, "memory.first")
    return {row[0] for name in names for row in session.select(statement, params | {"name": name, "limit": 1})}


LinkKind = Literal["leaving", "entering", "superseding"]


class CandidateLink(NamedTuple):
    """A link of a candidate."""

    source: str
    target: str
    relation: Relation
    created_at: int


def list_links(
    session: Session,
    caller: Caller,
    kind: LinkKind,
    ids: Sequence[str],
    now: int,
    *,
    valid_at: int | None = None,
    limit: int,
) -> list[CandidateLink]:
    """List links of some memories whose other end the caller may see, ordered by start.

    They are valid now and lead to a live memory; with `valid_at`, they are valid then, whatever became of the memory.
    """
    if not ids:
        return []
    parts, params = filter_clauses(caller, EVERYTHING, now) if valid_at is None else visibility_clauses(caller)
    statement = (f"candidate_links.{kind}", *parts, f"candidate_links.{'now' if valid_at is None else 'then'}")
    params |= {"ids": list(ids), "holds_at": now if valid_at is None else valid_at, "limit": limit}
    return [CandidateLink(*row) for row in session.select(statement, params)]


def read_utilities(session: Session, ids: Sequence[str]) -> dict[str, float]:
    """Compute the utility of the memories that have verdicts."""
    counts: dict[str, dict[Verdict, int]] = {}
    for memory, verdict, count in session.rows("recall_feedback_counts", ids=list(ids)) if ids else ():
        counts.setdefault(memory, {})[verdict] = count
    return {memory: compute_utility(verdicts) for memory, verdicts in counts.items()}


def list_derived(session: Session, ids: Sequence[str]) -> list[str]:
    """List the memories that have sources or pending notices: no other can be stale."""
    return [id for (id,) in session.rows("stale_or_derived", ids=list(ids))] if ids else []


PassageCosines = dict[tuple[int, int], float]
"""Cosine of each passage of a memory with the query, by start and end."""
StoredVectors = dict[str, list[tuple[Any, ...]]]
"""Stored embeddings by memory, one row per passage."""
NO_VECTORS: StoredVectors = {}


class EmbeddingState(NamedTuple):
    """The dimension of a model's stored vectors, and how far they are computed; None if there are none."""

    dim: int | None
    watermark: Watermark | None


def read_embedding_state(session: Session, model: str) -> EmbeddingState:
    ((dim, body),) = session.rows("embedding_state", model=model, watermark=WATERMARK_NAME + model)
    return EmbeddingState(dim, None if body is None else msgspec.json.decode(body, type=Watermark))


def list_due(
    session: Session,
    caller: Caller,
    which: Filter,
    now: int,
    model: str,
    watermark: Watermark | None,
    *,
    limit: int,
    max_entries: int,
) -> list[DueMemory]:
    """List memories without current embeddings that a caller may see and that pass a filter.

    Memories that are only to be recomputed still have embeddings and are not listed.
    """
    parts, params = filter_clauses(caller, which, now)
    params |= {"model": model, "after": 0, "limit": limit, "renewed": -1}
    if watermark is not None and watermark.whole:
        rows = session.rows("memory_changed", after=watermark.seq, upto=watermark.seq + max_entries)
        if not rows:
            return []
        parts, params["ids"] = [*parts, "memory.some"], [id for id, _ in rows]
    elif watermark is not None:
        params["after"] = watermark.row
    return [DueMemory(*row) for row in session.select(("embedding_due", *parts, "embedding_due.first"), params)]


def find_nearest(
    session: Session, caller: Caller, embedding: Embedding, which: Filter, now: int, *, limit: int
) -> list[tuple[str, float]]:
    """Return ids and cosines of the memories with the nearest passages; filters apply before the limit."""
    parts, params = filter_clauses(caller, which, now)
    rows = session.nearest(embedding.vector, parts, params | {"model": embedding.model}, limit)
    return [(id, cosine) for id, cosine in rows]


def read_vectors(session: Session, ids: Iterable[str], model: str) -> StoredVectors:
    """Read the stored embeddings of some memories, for `compute_nearness`."""
    found: StoredVectors = {id: [] for id in ids}
    for row in session.vectors(list(found), model) if found else ():
        found[row[0]].append(row)
    return found


def compute_nearness(
    session: Session, embedding: Embedding, text_hashes: Mapping[str, str], known: StoredVectors = NO_VECTORS
) -> dict[str, PassageCosines]:
    """Compute the cosine of each passage of some memories. Embeddings of other `text_hashes` do not count.

    `known` are embeddings that were read already.
    """
    read = known | read_vectors(session, text_hashes.keys() - known.keys(), embedding.model)
    rows = [row for id in sorted(text_hashes) for row in read[id] if row[4] == text_hashes[id]]
    found: dict[str, PassageCosines] = {}
    for row, cosine in zip(rows, cosines(embedding.vector, [row[3] for row in rows]), strict=True):
        found.setdefault(row[0], {})[row[1], row[2]] = cosine
    return found


class CorpusStats:
    """Cached statistics: the mean length of the newest memories, refreshed when the store has grown by an eighth, and
    which filters match very many memories, refreshed now and then."""

    def __init__(self) -> None:
        self._sampled_row, self._length = 0, 0.0
        self._large_filters: dict[tuple[Caller, Filter], int] = {}

    def mean_length(self, session: Session, last_row: int) -> float:
        if 8 * abs(last_row - self._sampled_row) > self._sampled_row:
            found = [count_terms(text) for (text,) in session.rows("index_terms_newest", limit=LENGTH_SAMPLE)]
            self._sampled_row, self._length = last_row, sum(found) / len(found) if found else 0.0
        return self._length

    def count_filtered(self, session: Session, caller: Caller, which: Filter, now: int) -> int | None:
        """Count the memories that pass a filter; None if there are very many. Cached, because counting takes long."""
        key = (caller, which)
        if (remaining := self._large_filters.get(key, 0)) > 0:
            self._large_filters[key] = remaining - 1
            return None
        count = _count_filtered(session, caller, which, now)
        if count is None:
            if len(self._large_filters) >= MAX_FILTERS:
                self._large_filters.clear()
            self._large_filters[key] = RECOUNT_AFTER
        return count


def read_corpus_counts(
    session: Session,
    caller: Caller,
    words: Mapping[str, str],
    which: Filter,
    now: int,
    stats: CorpusStats,
    *,
    is_narrow: bool,
    last_row: int,
    document_counts: Mapping[str, int] = {},
) -> CorpusCounts:
    """Count in how many memories each query stem occurs, in scope and in the whole store.

    `last_row` is the newest row; `document_counts` are the counts for the whole store, if known.
    """
    document_counts = document_counts or session.document_frequencies(list(words), last_row)
    share = {stem: min(1.0, document_counts.get(stem, 0) / last_row) if last_row else 0.0 for stem in words}
    memories = stats.count_filtered(session, caller, which, now) if is_narrow else None
    if memories is None:
        return CorpusCounts(
            last_row,
            stats.mean_length(session, last_row),
            {stem: document_counts.get(stem, 0) for stem in words},
            share,
        )
    counted = {
        stem: _count_matching(session, caller, word, which, now)
        if document_counts.get(stem, 0) <= MAX_COUNTED_TERM
        else round(share[stem] * memories)
        for stem, word in words.items()
    }
    return CorpusCounts(memories, stats.mean_length(session, last_row), counted, share)


def _count_filtered(session: Session, caller: Caller, which: Filter, now: int) -> int | None:
    """Count the memories that pass a filter; None if there are very many."""
    parts, params = filter_clauses(caller, which, now)
    ((count,),) = session.select(
        ("memory_count_capped", *parts, "memory_count_capped.end"), params | {"limit": MAX_COUNTED + 1}
    )
    return None if count > MAX_COUNTED else int(count)


def _count_matching(session: Session, caller: Caller, word: str, which: Filter, now: int) -> int:
    """Count the memories that pass a filter and contain a word."""
    parts, params = filter_clauses(caller, which, now)
    ((count,),) = session.select(("word_document_count", *parts), params | {"match": session.match_term(word)})
    return int(count)


MAX_MATCHES = ROW_BUDGET


def find_match_times(
    session: Session, caller: Caller, words: Sequence[str], which: Filter, now: int
) -> dict[str, int] | None:
    """Return the ids and times of all memories with any of some words; None if there are too many to read."""
    plan = plan_query(session, words)
    if any(_count_documents(word, plan) for word in words if word not in plan.rare):
        return None
    if not plan.rare:
        return {}
    parts, params = filter_clauses(caller, which, now)
    _, match_params = session.full_text_query(plan.rare, match_all=False)
    params |= {"match": match_params["match"], "limit": MAX_MATCHES + 1}
    found = {row[0]: row[1] for row in session.select(("match_times", *parts, "match_times.limit"), params)}
    return None if len(found) > MAX_MATCHES else found


def _count_documents(word: str, plan: FtsPlan) -> int:
    """Return in how many memories a word occurs, as far as counted."""
    return min((plan.document_counts.get(stem, 0) for stem in index_terms.stems(word)), default=0)
