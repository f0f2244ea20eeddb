"""Read everything that ranking needs about the candidates of a query, each once."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.embeddings import store as embedding_store
from holdfast.features.embeddings.store import REPLY, PassageCosines, PassageEmbedding, StoredVectors
from holdfast.features.graph import store as link_store
from holdfast.features.graph.store import LinkFilter
from holdfast.features.history.snapshot import Snapshot
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import EVERYTHING, Filter
from holdfast.features.recall import ranking, recall_store, search_index
from holdfast.features.recall.captured_prompts import find_asking_prompts, find_repeated_prompts
from holdfast.features.recall.dates import score_periods
from holdfast.features.recall.query import Query, find_asked_speakers
from holdfast.features.recall.recall_snapshot import NO_PAST, PastCandidates
from holdfast.features.recall.search_index import AdjacentRows, CorpusStats, Neighbour, Row
from holdfast.kernel.context import Context
from holdfast.kernel.cosine import cosines
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.index_terms import IndexTerms, count_terms, has_question, pad
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
MAX_LINK_SOURCES = 20
"""Links are followed from this many of the best hits."""
MAX_LINKS = 100
GROUP_ROWS = 20
"""Without a thread or a time, this many consecutive memories count as one conversation."""


MAX_PER_CHANNEL = 2000
"""Maximum read per channel, however many of them only repeat the query."""
MAX_NAMES = 16
MIN_DATED = 10
"""With fewer hits from a period that the query names, more memories of that period are read."""
MAX_RARE_MEMORIES = 5
"""A word in at most this many memories makes all of them candidates, even long ones that the index ranks low."""
NO_NEIGHBOURS = AdjacentRows(None, None, None, None)
UNUSED = (0, 0)
REPLY_SPAN = (REPLY, REPLY)
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
    scope: ranking.Scope
    adjacent: dict[int, AdjacentRows]
    """The rows before and after each hit."""
    stored_vectors: StoredVectors
    """Stored embeddings of the hits, from the model that embeds the query."""
    repeated_prompts: list[str]
    """Prompts among the hits that only repeat the query."""


class Candidates(NamedTuple):
    """What ranking works on: candidates, their neighbours, corpus statistics."""

    candidates: list[ranking.Candidate]
    neighbours: list[ranking.Candidate]
    scope: ranking.Scope
    stems: tuple[str, ...]
    rows: dict[str, Row]
    superseded_by: dict[str, str]
    """Successor of each superseded memory."""
    uses: dict[str, tuple[int, int]]
    """Number of accesses of each, and time of the last one."""
    past_memories: Mapping[str, Memory] = {}
    """Memories to return in a past state."""
    repeated_prompts: Collection[str] = ()
    """They are not candidates, but still count for their neighbours."""
    asking_prompts: Collection[str] = ()


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
    padded_stems = _pad_stems(stems)
    document_counts = plan.document_counts or session.document_frequencies(list(stems), last_row)
    ids, repeated, rows = read_channel(reader, query, _make_finder(reader, plan), breadth.lexical, excluded=excluded)
    term_counts = {id: _count_terms(row.parsed, padded_stems) for id, row in rows.items()}
    if missed_words := _find_missed_rare_words(stems, document_counts, term_counts.values()):
        find = _make_finder(reader, search_index.FtsPlan(missed_words))
        more = read_channel(reader, query, find, breadth.lexical, excluded={*excluded, *rows})
        ids, repeated, rows = [*ids, *more.ids], [*repeated, *more.repeated_prompts], rows | more.rows
        term_counts |= {id: _count_terms(row.parsed, padded_stems) for id, row in more.rows.items()}
    named_speakers = find_asked_speakers(query, known_speakers | _collect_speakers(rows.values()))
    scope = _read_scope(reader, query, stems, named_speakers, last_row, document_counts)
    around = _find_adjacent(reader, rows.values())
    stored = embedding_store.read_vectors(session, rows, model) if model else {}
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
        rows |= _read_rows(reader, [id for id in ids if id not in rows])
        ids = [id for id in ids if id in rows]
        repeated = find_repeated_prompts(query, reader.filter, [rows[id] for id in ids])
        if len(found) < limit or 2 * len(repeated) < limit or 4 * limit > MAX_PER_CHANNEL:
            break
        limit *= 4
    others = set(repeated)
    new = [id for id in ids if id not in others]
    if limit > max_ids:
        new, repeated = new[:max_ids], repeated[:max_ids]
    return ChannelHits(new, repeated, {id: rows[id] for id in (*new, *repeated)})


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


def _list_possible_names(query: Query) -> list[str]:
    """List words of the query that may be names: capitalised in it, or any word if it has no capitals."""
    names = [word.capitalize() for word in query.words[:MAX_NAMES] if word.isalpha()]
    return [name for name in names if name in query.text] if query.text != query.text.lower() else names


def _collect_speakers(rows: Iterable[Row]) -> set[str]:
    """Collect the speakers of memories and of their passages."""
    names = {row.speaker for row in rows if row.speaker}
    return names | {line.speaker for row in rows for line in row.parsed.passages if line.speaker}


def find_candidates(
    reader: Reader,
    query: Query,
    lexical: LexicalHits,
    embedding: Embedding | None,
    fresh: Sequence[PassageEmbedding],
    nearest: ChannelHits,
    also: Sequence[str] = (),
    past: PastCandidates = NO_PAST,
) -> Candidates:
    """Collect the candidates: hits of both channels, their thread neighbours and links, and the memories in `also`."""
    rows = lexical.rows | nearest.rows
    rows |= _read_rows(reader, [id for id in also if id not in rows])
    linking = [*lexical.ids[:MAX_LINK_SOURCES], *nearest.ids[:MAX_LINK_SOURCES], *list(past.rows)[:MAX_LINK_SOURCES]]
    edges = _read_links(reader, linking, past.snapshot)
    rows |= _read_rows(reader, [id for id in edges.linked if id not in rows]) | past.rows
    leading = [*lexical.ids[: lexical.breadth.leading], *nearest.ids[: lexical.breadth.leading_nearest]]
    leading += [
        *lexical.repeated_prompts[: lexical.breadth.leading_nearest],
        *nearest.repeated_prompts[: lexical.breadth.leading_nearest],
    ]
    beside = _find_neighbours(reader, rows, lexical.adjacent, leading)
    rows |= beside.following
    edges.superseded.update(_find_successors(reader, rows.keys() - set(linking), past.snapshot))
    repeated = frozenset(find_repeated_prompts(query, reader.filter, rows.values()))
    asking = frozenset(find_asking_prompts(query, reader.filter, rows.values()))
    making = _CandidateBuilder(
        query=query,
        padded_stems=_pad_stems(lexical.stems),
        term_counts={} if past.rows else lexical.term_counts,
        speakers=lexical.speakers,
        near=_compute_nearness(reader, embedding, fresh, rows, lexical.stored_vectors),
        adjacent=beside.adjacent,
        ids={**{row.rowno: row.id for row in rows.values()}, **{row.rowno: row.id for row in beside.others}},
        asking_rows=frozenset(rows[id].rowno for id in asking),
        edges=edges,
        uses=memories.read_access_counts(reader.session, list(rows)),
        utility=recall_store.read_utilities(reader.session, list(rows)),
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
        superseded_by=edges.superseded,
        uses=making.uses,
        past_memories=past.memories,
        repeated_prompts=repeated,
        asking_prompts=asking,
    )


def _read_rows(reader: Reader, ids: Sequence[str]) -> dict[str, Row]:
    """Read the memories that pass the filter, in the given order."""
    if not ids:
        return {}
    read = search_index.read_rows(reader.session, reader.ctx.caller, ids, reader.filter, reader.now)
    found = {row.id: row for row in read}
    return {id: found[id] for id in ids if id in found}


class Edges(NamedTuple):
    """Links among candidates."""

    linked: dict[str, set[str]]
    superseded: dict[str, str]


def _read_links(reader: Reader, ids: Sequence[str], when: Snapshot | None = None) -> Edges:
    """Read the links of memories in both directions, valid and known at that time."""
    linked: dict[str, set[str]] = {}
    superseded: dict[str, str] = {}
    if not ids:
        return Edges(linked, superseded)
    arguments = (reader.session, reader.ctx.caller, list(dict.fromkeys(ids)), _link_filter(when), reader.now)
    for edge in (
        *link_store.list_outgoing(*arguments, limit=MAX_LINKS),
        *link_store.list_incoming(*arguments, limit=MAX_LINKS),
    ):
        if not _was_known(edge.link, when):
            continue
        source, target = edge.link.source, edge.link.target
        linked.setdefault(source, set()).add(target)
        linked.setdefault(target, set()).add(source)
        if edge.link.relation == "supersedes":
            superseded[target] = source
    return Edges(linked, superseded)


def _find_successors(reader: Reader, ids: Iterable[str], when: Snapshot | None) -> dict[str, str]:
    """Find the successors of memories whose other links do not count."""
    wanted = list(ids)
    if not wanted:
        return {}
    which = replace(_link_filter(when), relations=("supersedes",))
    found = link_store.list_incoming(reader.session, reader.ctx.caller, wanted, which, reader.now, limit=MAX_LINKS)
    return {edge.link.target: edge.link.source for edge in found if _was_known(edge.link, when)}


def _link_filter(when: Snapshot | None) -> LinkFilter:
    return LinkFilter() if when is None else LinkFilter(view=None, valid_at=when.holds_at)


def _was_known(link: Link, when: Snapshot | None) -> bool:
    return when is None or link.created_at <= when.known_at


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
    around |= _find_adjacent(reader, [row for row in rows.values() if row.rowno not in around])
    after = {
        place
        for id in leading
        if id in rows and (at := around.get(rows[id].rowno))
        for place in (at.after, at.long_after)
        if place is not None and place not in known
    }
    following = search_index.read_numbered_rows(session, ctx.caller, after, which, now)
    around |= _find_adjacent(reader, following)
    known |= {row.rowno for row in following}
    others = {place for at in around.values() for place in at[:3] if place is not None and place not in known}
    read = search_index.read_neighbours(session, ctx.caller, others, _time_filter(which), now)
    return Neighbours(around, {row.id: row for row in following}, read)


def _find_adjacent(reader: Reader, rows: Iterable[Row]) -> dict[int, AdjacentRows]:
    """Find the rows before and after the memories that are in a thread."""
    return search_index.find_adjacent(reader.session, [row.rowno for row in rows if row.thread_key])


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
    return embedding_store.compute_nearness(reader.session, embedding, text_hashes, known) | compute_cosines(
        embedding, current
    )


def compute_cosines(embedding: Embedding, fresh: Sequence[PassageEmbedding]) -> dict[str, PassageCosines]:
    """Compute the cosines of passages whose embeddings are not stored yet."""
    found: dict[str, PassageCosines] = {}
    for one, cosine in zip(fresh, cosines(embedding.vector, [one.vector for one in fresh]), strict=True):
        found.setdefault(one.memory, {})[one.begins, one.ends] = cosine
    return found


def _read_scope(
    reader: Reader,
    query: Query,
    stems: dict[str, str],
    speakers: tuple[str, ...],
    last_row: int,
    document_counts: Mapping[str, int],
) -> ranking.Scope:
    """Read how rare the query words are within the filter, and which of them are names."""
    ctx, session, which, now = reader
    narrow = "*" not in ctx.caller.namespaces or replace(which, archived=False) != EVERYTHING
    stats = ctx.local(CorpusStats)
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
    return ranking.Scope(*counts, names=frozenset(people & set(stems)), speakers=speakers, events=events)


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

    def build_candidate(self, row: Row) -> ranking.Candidate:
        """Positional arguments: with keywords, this hot path takes twice as long."""
        id, at = row.id, occurred_or_created_at(row)
        near = self.near.get(id, {})
        term_counts = self.term_counts.get(id) or _count_terms(row.parsed, self.padded_stems)
        over = id in self.edges.superseded or (row.valid_until is not None and row.valid_until <= self.now)
        date = score_periods(self.query.dates, at + self.query.utc_offset) if self.query.dates else 0.0
        return ranking.Candidate(
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

    def build_neighbours(self, rows: Iterable[Neighbour]) -> list[ranking.Candidate]:
        """Build neighbours that are not candidates: their words as one passage, and their speaker."""
        return [
            ranking.Candidate(
                row.id,
                (ranking.Passage(0, 0, counts),),
                count_terms(row.text),
                speaker=row.speaker,
                asks=has_question(row.text),
            )
            for row in rows
            if (counts := _count_stems(row.text, _find_present(row.text, self.padded_stems), self.padded_stems))
            or row.speaker in self.speakers
        ]


def _pad_stems(stems: Iterable[str]) -> PaddedStems:
    return {pad(stem): stem for stem in stems}


def _count_terms(parsed: IndexTerms, padded_stems: PaddedStems) -> TermCounts:
    present = _find_present(parsed.text, padded_stems)
    return TermCounts(
        _count_stems(parsed.labels, present, padded_stems),
        [_count_stems(line.stems, present, padded_stems) for line in parsed.passages],
    )


def _find_present(text: str, padded_stems: PaddedStems) -> list[str]:
    """List the query stems in a parsed text; the others need not be counted in its parts."""
    return [padded for padded in padded_stems if padded in text]


def _build_passages(row: Row, near: PassageCosines, term_counts: TermCounts) -> list[ranking.Passage]:
    """Build the passages of a memory. An embedding without a passage becomes one without words."""
    lines = row.parsed.passages
    cosines = [near.get((line.begins, line.ends)) for line in lines]
    found = [
        ranking.Passage(line.begins, line.ends, counts, line.speaker, cosine)
        for line, counts, cosine in zip(lines, term_counts.passages, cosines, strict=True)
    ]
    if len(near) == len(found) - cosines.count(None) + (REPLY_SPAN in near):
        return found
    spans = {(piece.begins, piece.ends) for piece in found} | {REPLY_SPAN}
    return found + [ranking.Passage(*span, {}, row.speaker, near[span]) for span in near if span not in spans]


def _count_stems(stems: str, present: Sequence[str], padded_stems: PaddedStems) -> dict[str, int]:
    """Count the given stems in a part of a parsed text."""
    return (
        {padded_stems[padded]: count for padded in present if (count := stems.count(padded))}
        if present and stems
        else {}
    )


def _group_key(row: Row) -> str | None:
    if row.thread_key is None or not row.thread_key.startswith("s "):
        return row.thread_key
    return f"{row.thread_key} {row.rowno // GROUP_ROWS}"
