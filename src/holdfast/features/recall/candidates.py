"""Collect the candidates: the hits, their links and neighbours in threads, and memories of the time asked about."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.embeddings.store import REPLY, PassageEmbedding
from holdfast.features.history.snapshot import Snapshot
from holdfast.features.memories import store as memories
from holdfast.features.memories.find_memories import list_lost_contents
from holdfast.features.memories.store import Filter
from holdfast.features.recall import recall_snapshot, search_index
from holdfast.features.recall.captured_prompts import find_asking_prompts, find_repeated_prompts
from holdfast.features.recall.dates import score_periods
from holdfast.features.recall.features import RELATED, Candidate, Passage, Scope
from holdfast.features.recall.lexical_hits import (
    ChannelHits,
    KeywordSearch,
    LexicalHits,
    PaddedStems,
    Reader,
    TermCounts,
    count_query_stems,
    count_stems,
    find_adjacent_rows,
    find_present_stems,
    pad_stems,
    read_channel,
    read_rows_in_order,
)
from holdfast.features.recall.query import Query
from holdfast.features.recall.recall_snapshot import NO_PAST, PastCandidates
from holdfast.features.recall.search_index import (
    AdjacentRows,
    CandidateLink,
    LinkKind,
    Neighbour,
    PassageCosines,
    Row,
    StoredVectors,
)
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.index_terms import count_terms, has_question, terms_of_line
from holdfast.kernel.vector import Embedding, cosines

MAX_LINK_SOURCES = 20
"""Links are followed from this many of the best hits."""
MAX_LINKS = 100
GROUP_ROWS = 20
"""Without a thread or a time, this many consecutive memories count as one conversation."""


MIN_DATED = 10
"""With fewer hits from a period that the query names, more memories of that period are read."""
NO_HITS = ChannelHits([], [], {})
NO_NEIGHBOURS = AdjacentRows(None, None, None, None)
UNUSED = (0, 0)
REPLY_SPAN = (REPLY, REPLY)


class Candidates(NamedTuple):
    """What ranking works on: candidates, their neighbours, corpus statistics."""

    candidates: list[Candidate]
    neighbours: list[Candidate]
    scope: Scope
    stems: tuple[str, ...]
    rows: dict[str, Row]
    nearest_ids: list[str]
    """Hits of the vector search."""
    superseded_by: dict[str, str]
    """Successor of each superseded memory."""
    uses: dict[str, tuple[int, int]]
    """Number of accesses of each, and time of the last one."""
    past_memories: Mapping[str, Memory] = {}
    """Memories to return in a past state."""
    repeated_prompts: Collection[str] = ()
    """They are not candidates, but still count for their neighbours."""
    asking_prompts: Collection[str] = ()


def add_lost_contents(reader: Reader, search: KeywordSearch) -> KeywordSearch:
    """Add memories that match only by the losing side of a conflict."""
    if search.snapshot is not None or reader.session.row("conflict_any") is None:
        return search
    query_stems, known = set(search.lexical.stems), search.lexical.rows.keys() | set(search.request.excluded)
    lost_texts = {
        one.memory: one.text
        for one in list_lost_contents(reader.ctx, reader.session)
        if one.memory not in known and query_stems & set(index_terms.index_tokens(one.text))
    }
    if not lost_texts:
        return search
    read = search_index.read_rows(reader.session, reader.ctx.caller, list(lost_texts), reader.filter, reader.now)
    rows = {row.id: replace(row, parsed=terms_of_line(lost_texts[row.id])) for row in read}
    return search._replace(lexical=search.lexical._replace(rows=search.lexical.rows | rows))


def find_dated(reader: Reader, query: Query, lexical: LexicalHits) -> list[str]:
    """List memories from the periods of the query, if keywords found few of them; keyword matches first."""
    found: list[str] = []
    repeated = set(lexical.repeated_prompts)
    own, limit = [row for id, row in lexical.rows.items() if id not in repeated], MIN_DATED + len(repeated)
    for period in query.dates:
        start, end = period.start - query.utc_offset, period.end - query.utc_offset
        if sum(start <= occurred_or_created_at(row) <= end for row in own) < MIN_DATED:
            ctx, session, which, now = reader._replace(filter=replace(reader.filter, said_since=start, said_until=end))
            found += [
                hit.id for hit in search_index.find_matches(session, ctx.caller, lexical.plan, which, now, limit=limit)
            ]
            forward = period.precision == "after"
            found += search_index.list_by_time(session, ctx.caller, which, now, forward=forward, limit=limit)
    return list(dict.fromkeys(found))


def occurred_or_created_at(one: Row | Memory) -> int:
    """Return when it happened, or else when it was stored."""
    return one.created_at if one.occurred_at is None else one.occurred_at


def find_candidates(reader: Reader, search: KeywordSearch, also: Sequence[str] = ()) -> Candidates:
    """Collect the candidates: hits of both channels, their thread neighbours and links, memories of the time asked
    about, and those in `also`."""
    nearest = _find_nearest(reader, search, search.vector) if search.vector else NO_HITS
    past = _find_past(reader, search, also) if search.snapshot else NO_PAST
    dated = [id for id in find_dated(reader, search.query, search.lexical) if id not in search.request.excluded]
    query, lexical = search.query, search.lexical
    rows = lexical.rows | nearest.rows
    rows |= read_rows_in_order(reader, [id for id in (*dated, *also) if id not in rows])
    linking = [*lexical.ids[:MAX_LINK_SOURCES], *nearest.ids[:MAX_LINK_SOURCES], *list(past.rows)[:MAX_LINK_SOURCES]]
    edges = _read_links(reader, linking, past.snapshot)
    rows |= read_rows_in_order(reader, [id for id in edges.linked if id not in rows]) | past.rows
    leading = [*lexical.ids[: lexical.breadth.leading], *nearest.ids[: lexical.breadth.leading_nearest]]
    leading += [
        *lexical.repeated_prompts[: lexical.breadth.leading_nearest],
        *nearest.repeated_prompts[: lexical.breadth.leading_nearest],
    ]
    beside = _find_neighbours(reader, rows, lexical.adjacent, leading)
    rows |= beside.following
    edges.superseded.update(_find_successors(reader, rows.keys() - set(linking), past.snapshot))
    prompts = [row for row in rows.values() if row.kind == "conversation"]
    repeated = frozenset(find_repeated_prompts(query, reader.filter, prompts) if prompts else ())
    asking = frozenset(find_asking_prompts(query, reader.filter, prompts) if prompts else ())
    making = _CandidateBuilder(
        query=query,
        padded_stems=pad_stems(lexical.stems),
        term_counts={} if past.rows else lexical.term_counts,
        speakers=lexical.speakers,
        near=_compute_nearness(reader, search.vector, search.fresh, rows, lexical.stored_vectors),
        adjacent=beside.adjacent,
        ids={**{row.rowno: row.id for row in rows.values()}, **{row.rowno: row.id for row in beside.others}},
        asking_rows=frozenset(rows[id].rowno for id in asking),
        edges=edges,
        uses=memories.read_access_counts(reader.session, list(rows)),
        utility=search_index.read_utilities(reader.session, list(rows)),
        now=reader.now,
    )
    return Candidates(
        candidates=[making.build_candidate(row) for id, row in rows.items() if id not in repeated],
        neighbours=[
            *making.build_neighbours(beside.others),
            *(making.build_candidate(rows[id]) for id in rows if id in repeated),
        ],
        scope=lexical.scope,
        stems=tuple(lexical.stems),
        rows=rows,
        nearest_ids=nearest.ids,
        superseded_by=edges.superseded,
        uses=making.uses,
        past_memories=past.memories,
        repeated_prompts=repeated,
        asking_prompts=asking,
    )


def _find_nearest(reader: Reader, search: KeywordSearch, embedding: Embedding) -> ChannelHits:
    """Find the memories with the nearest passages, nearest first, including those embedded just now."""
    fresh = compute_cosines(embedding, [one for one in search.fresh if one.begins != REPLY])

    def find(limit: int) -> list[str]:
        found = search_index.find_nearest(
            reader.session, reader.ctx.caller, embedding, reader.filter, reader.now, limit=limit
        )
        near = dict(found) | {id: max(passages.values()) for id, passages in fresh.items()}
        return [id for id in sorted(near, key=lambda id: (-near[id], id)) if near[id] >= RELATED]

    lexical = search.lexical
    return read_channel(
        reader, search.query, find, lexical.breadth.nearest, excluded=search.request.excluded, known_rows=lexical.rows
    )


def _find_past(reader: Reader, search: KeywordSearch, also: Sequence[str]) -> PastCandidates:
    """Find matching memories that have changed since, in their past state."""
    assert search.snapshot is not None
    which = replace(reader.filter, unchanged_since=None, true_at=None)
    stems, most = tuple(search.lexical.stems), search.lexical.breadth.lexical
    found = recall_snapshot.find_past_candidates(
        reader.ctx, reader.session, search.snapshot, which, stems, search.vector, most, also
    )
    return found._replace(rows={id: row for id, row in found.rows.items() if id not in search.request.excluded})


class Edges(NamedTuple):
    """Links among candidates."""

    linked: dict[str, set[str]]
    superseded: dict[str, str]


def _read_links(reader: Reader, ids: Sequence[str], when: Snapshot | None = None) -> Edges:
    """Read the links of memories in both directions, valid and known at that time."""
    linked: dict[str, set[str]] = {}
    superseded: dict[str, str] = {}
    for link in _list_links(reader, ("leaving", "entering"), list(dict.fromkeys(ids)), when):
        linked.setdefault(link.source, set()).add(link.target)
        linked.setdefault(link.target, set()).add(link.source)
        if link.relation == "supersedes":
            superseded[link.target] = link.source
    return Edges(linked, superseded)


def _find_successors(reader: Reader, ids: Iterable[str], when: Snapshot | None) -> dict[str, str]:
    """Find the successors of memories whose other links do not count."""
    return {link.target: link.source for link in _list_links(reader, ("superseding",), list(ids), when)}


def _list_links(
    reader: Reader, kinds: Sequence[LinkKind], ids: Sequence[str], when: Snapshot | None
) -> list[CandidateLink]:
    """List links of some kinds, valid now or as of a snapshot."""
    ctx, session, _, now = reader
    valid_at = None if when is None else when.holds_at
    found = [
        link
        for kind in kinds
        for link in search_index.list_links(session, ctx.caller, kind, ids, now, valid_at=valid_at, limit=MAX_LINKS)
    ]
    return found if when is None else [link for link in found if link.created_at <= when.known_at]


class Neighbours(NamedTuple):
    """The thread neighbours of the candidates."""

    adjacent: dict[int, AdjacentRows]
    following: dict[str, Row]
    """Memories that follow the best hits and are candidates themselves."""
    others: list[Neighbour]


def _find_neighbours(
    reader: Reader, rows: Mapping[str, Row], known_adjacent: Mapping[int, AdjacentRows], leading: Sequence[str]
) -> Neighbours:
    """Read thread neighbours, except those known already."""
    ctx, session, which, now = reader
    known = {row.rowno for row in rows.values()}
    around = {place: at for place, at in known_adjacent.items() if place in known}
    around |= find_adjacent_rows(reader, [row for row in rows.values() if row.rowno not in around])
    after = {
        place
        for id in leading
        if id in rows and (at := around.get(rows[id].rowno))
        for place in (at.after, at.long_after)
        if place is not None and place not in known
    }
    following = search_index.read_numbered_rows(session, ctx.caller, after, which, now)
    around |= find_adjacent_rows(reader, following)
    known |= {row.rowno for row in following}
    others = {place for at in around.values() for place in at[:3] if place is not None and place not in known}
    read = search_index.read_neighbours(session, ctx.caller, others, _time_filter(which), now)
    return Neighbours(around, {row.id: row for row in following}, read)


def _time_filter(which: Filter) -> Filter:
    """Return only the time part of a filter: neighbours of a hit need not match the rest."""
    return Filter(unchanged_since=which.unchanged_since, true_at=which.true_at)


def _compute_nearness(
    reader: Reader,
    embedding: Embedding | None,
    fresh: Sequence[PassageEmbedding],
    rows: Mapping[str, Row],
    known: StoredVectors,
) -> dict[str, PassageCosines]:
    """Compute the cosine of each passage of the candidates; embeddings of another text version do not count."""
    if embedding is None:
        return {}
    text_hashes = {id: row.content_hash for id, row in rows.items()}
    current = [one for one in fresh if text_hashes.get(one.memory) == one.text_hash]
    return search_index.compute_nearness(reader.session, embedding, text_hashes, known) | compute_cosines(
        embedding, current
    )


def compute_cosines(embedding: Embedding, fresh: Sequence[PassageEmbedding]) -> dict[str, PassageCosines]:
    """Compute the cosines of passages whose embeddings are not stored yet."""
    found: dict[str, PassageCosines] = {}
    for one, cosine in zip(fresh, cosines(embedding.vector, [one.vector for one in fresh]), strict=True):
        found.setdefault(one.memory, {})[one.begins, one.ends] = cosine
    return found


class _CandidateBuilder(Struct, frozen=True):
    """Builds candidates from rows."""

    query: Query
    padded_stems: PaddedStems
    term_counts: dict[str, TermCounts]
    speakers: tuple[str, ...]
    near: dict[str, PassageCosines]
    adjacent: dict[int, AdjacentRows]
    ids: dict[int | None, str]
    asking_rows: frozenset[int]
    """Rows of prompts that ask something."""
    edges: Edges
    uses: dict[str, tuple[int, int]]
    utility: dict[str, float]
    now: int

    def build_candidate(self, row: Row) -> Candidate:
        """Positional arguments: with keywords, this hot path takes twice as long."""
        id, at = row.id, occurred_or_created_at(row)
        near = self.near.get(id, {})
        term_counts = self.term_counts.get(id) or count_query_stems(row.parsed, self.padded_stems)
        over = id in self.edges.superseded or (row.valid_until is not None and row.valid_until <= self.now)
        date = score_periods(self.query.dates, at + self.query.utc_offset) if self.query.dates else 0.0
        return Candidate(
            id,
            _build_passages(row, near, term_counts),
            row.parsed.length,
            term_counts.labels,
            near.get(REPLY_SPAN),
            row.speaker,
            *self._find_thread(row),
            row.parsed.is_question,
            date,
            self.edges.linked.get(id, ()),
            row.priority,
            row.confidence,
            row.updated_at,
            self.uses.get(id, UNUSED)[0],
            self.utility.get(id, 0.0),
            over,
            at,
        )

    def _find_thread(self, row: Row) -> tuple[str | None, str | None, str | None, str | None]:
        """Return its group, and the ids one before it, two before it and one after it.

        A prompt that asks has none and counts only for the answer right after it: otherwise, in a long agent session,
        every question would lift every other one.
        """
        if row.rowno in self.asking_rows:
            return (None, None, None, None)
        at = self.adjacent.get(row.rowno, NO_NEIGHBOURS)
        others = [None if rowno in self.asking_rows else self.ids.get(rowno) for rowno in (at.long_before, at.after)]
        return (_group_key(row), self.ids.get(at.before), others[0], others[1])

    def build_neighbours(self, rows: Iterable[Neighbour]) -> list[Candidate]:
        """Build neighbours that are not candidates: their words as one passage, and their speaker."""
        return [
            Candidate(
                row.id,
                (Passage(0, 0, counts),),
                count_terms(row.text),
                speaker=row.speaker,
                asks=has_question(row.text),
            )
            for row in rows
            if (counts := count_stems(row.text, find_present_stems(row.text, self.padded_stems), self.padded_stems))
            or row.speaker in self.speakers
        ]


def _build_passages(row: Row, near: PassageCosines, term_counts: TermCounts) -> list[Passage]:
    """Build the passages of a memory. An embedding without a passage becomes one without words."""
    lines = row.parsed.passages
    cosines = [near.get((line.begins, line.ends)) for line in lines]
    found = [
        Passage(line.begins, line.ends, counts, line.speaker, cosine)
        for line, counts, cosine in zip(lines, term_counts.passages, cosines, strict=True)
    ]
    if len(near) == len(found) - cosines.count(None) + (REPLY_SPAN in near):
        return found
    spans = {(piece.begins, piece.ends) for piece in found} | {REPLY_SPAN}
    return found + [Passage(*span, {}, row.speaker, near[span]) for span in near if span not in spans]


def _group_key(row: Row) -> str | None:
    if row.thread_key is None or not row.thread_key.startswith("s "):
        return row.thread_key
    return f"{row.thread_key} {row.rowno // GROUP_ROWS}"
