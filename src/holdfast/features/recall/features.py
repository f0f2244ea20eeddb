"""Read everything that ranking needs about the candidates of a query, each once."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.embeddings import store as vectors
from holdfast.features.embeddings.store import REPLY, Kept, Known, Near
from holdfast.features.graph import store as links
from holdfast.features.graph.store import Which
from holdfast.features.history.snapshot import Then
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import EVERYTHING, Filter
from holdfast.features.recall import candidates
from holdfast.features.recall import fts_query as asking
from holdfast.features.recall import ranking as rank
from holdfast.features.recall import recall_store as recalls
from holdfast.features.recall.candidates import Around, Neighbour, Row, Usual
from holdfast.features.recall.captured_prompts import find_asking_prompts, find_repeated_prompts
from holdfast.features.recall.dates import fitness
from holdfast.features.recall.query import Question, voices
from holdfast.features.recall.recall_snapshot import PRESENT, Past
from holdfast.kernel.context import Hold
from holdfast.kernel.cosine import cosines
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage import fts_tokens as tokens
from holdfast.kernel.storage.index_terms import Parsed, is_asking, length_of, pad
from holdfast.kernel.storage.port import Session
from holdfast.kernel.vector import Embedding

SMALL = 8000
"""With more memories than this, fewer candidates are read."""


class Breadth(NamedTuple):
    """How many memories are read for a query."""

    found: int
    """By keywords."""
    nearest: int
    """By vectors."""
    leading: int
    """Memories after this many of the best lexical hits are candidates too: an answer need not repeat the words."""
    leading_nearest: int = 10


WIDE = Breadth(100, 30, 50)
NARROW = Breadth(30, 30, 10)
LINKING = 20
"""Links are followed from this many of the best hits."""
MOST_LINKS = 100
BLOCK = 20
"""Without a thread or a time, this many consecutive memories count as one conversation."""


MAX_LOOKED_AT = 2000
"""Maximum read per channel, however many of them only repeat the query."""
MOST_NAMES = 16
DATED = 10
"""With fewer hits from a period that the query names, more memories of that period are read."""
RARE = 5
"""A word in at most this many memories makes all of them candidates, even long ones that the index ranks low."""
NOWHERE = Around(None, None, None, None)
UNUSED = (0, 0)
REPLIES = (REPLY, REPLY)
Asked = dict[str, str]
"""Each query stem, by the form in which it occurs in parsed text."""


class Looked(NamedTuple):
    """What the reads of one query share: caller, session, filter, time."""

    hold: Hold
    session: Session
    which: Filter
    now: int


class Said(NamedTuple):
    """How often each query stem occurs in a memory's labels and in each of its passages."""

    labels: dict[str, int]
    passages: list[dict[str, int]]


class Heard(NamedTuple):
    """What keyword search found."""

    breadth: Breadth
    asked: asking.Question
    """The plan that was run against the index."""
    found: list[str]
    """Ids, best first."""
    rows: dict[str, Row]
    words: dict[str, str]
    """Each query stem, with a word that has it."""
    said: dict[str, Said]
    """Counts for each hit, computed while the query is embedded."""
    named: tuple[str, ...]
    """Speakers that the query names, in its order; or those of the role it asks about."""
    scope: rank.Scope
    around: dict[int, Around]
    """The rows before and after each hit."""
    vectors: Known
    """Stored embeddings of the hits, from the model that embeds the query."""
    repeated: list[str]
    """Prompts among the hits that only repeat the query."""


class Gathered(NamedTuple):
    """What ranking works on: candidates, their neighbours, corpus statistics."""

    candidates: list[rank.Candidate]
    around: list[rank.Candidate]
    scope: rank.Scope
    stems: tuple[str, ...]
    rows: dict[str, Row]
    superseded: dict[str, str]
    """Successor of each superseded memory."""
    uses: dict[str, tuple[int, int]]
    """Number of accesses of each, and time of the last one."""
    then: Mapping[str, Memory] = {}
    """Memories to return in a past state."""
    repeated_prompts: Collection[str] = ()
    """They are not candidates, but still count for their neighbours."""
    asking_prompts: Collection[str] = ()


def stems_of(words: Sequence[str]) -> dict[str, str]:
    """Map each stem to a word that has it."""
    return {stem: word for word in words for stem in tokens.stems(word)}


def speakers(look: Looked, question: Question) -> set[str]:
    """Find the speakers with a name that occurs in the query."""
    return candidates.speakers(look.session, look.hold.caller, _names(question), look.which, look.now)


def listen(
    look: Looked,
    question: Question,
    known: set[str],
    model: str | None,
    *,
    without: Collection[str] = (),
    beside_vectors: bool = False,
) -> Heard:
    """Run the keyword search, and find which speakers the query names.

    It also reads the embeddings of the hits, while a model embeds the query. `beside_vectors`: every memory has
    embeddings, so keywords need not find everything.
    """
    session = look.session
    last = session.newest_row()
    breadth = WIDE if last <= SMALL else NARROW
    put = asking.question(session, question.words, last, beside_vectors=beside_vectors)
    stems = stems_of(question.words)
    asked, held = _asked(stems), put.held or session.holding(list(stems), last)
    ids, repeated, rows = find_new(look, question, _finder(look, put), breadth.found, without=without)
    said = {id: _said(row.parsed, asked) for id, row in rows.items()}
    if missed := _rare_words_missed(stems, held, said.values()):
        find = _finder(look, asking.Question(missed))
        more = find_new(look, question, find, breadth.found, without={*without, *rows})
        ids, repeated, rows = [*ids, *more.new], [*repeated, *more.repeated], rows | more.rows
        said |= {id: _said(row.parsed, asked) for id, row in more.rows.items()}
    named = voices(question, known | _speakers(rows.values()))
    scope = _scope(look, question, stems, named, last, held)
    around, kept = _around(look, rows.values()), vectors.kept(session, rows, model) if model else {}
    return Heard(breadth, put, ids, rows, stems, said, named, scope, around, kept, repeated)


def _finder(look: Looked, asked: asking.Question) -> Callable[[int], list[str]]:
    """Return a function that finds the best matches of a plan, up to a limit."""
    hold, session, which, now = look
    return lambda limit: [hit.id for hit in asking.candidates(session, hold.caller, asked, which, now, limit=limit)]


def _rare_words_missed(words: Mapping[str, str], held: Mapping[str, int], found: Collection[Said]) -> tuple[str, ...]:
    """List rare query words of which not all memories were found."""
    rare = [stem for stem in words if 0 < held.get(stem, 0) <= RARE]
    counted = {
        stem: sum(stem in said.labels or any(stem in one for one in said.passages) for said in found) for stem in rare
    }
    return tuple(words[stem] for stem in rare if counted[stem] < held[stem])


class FoundNew(NamedTuple):
    """What one channel found, best first: new memories, and prompts that only repeat the query."""

    new: list[str]
    repeated: list[str]
    rows: dict[str, Row]
    """Rows of both."""


def find_new(
    look: Looked,
    question: Question,
    find: Callable[[int], Sequence[str]],
    most: int,
    *,
    without: Collection[str],
    known: Mapping[str, Row] = {},
) -> FoundNew:
    """Read what a channel finds; read more if prompts that repeat the query take half of the places."""
    limit, rows = most, dict(known)
    while True:
        found = find(limit)
        ids = [id for id in found if id not in without]
        rows |= _read(look, [id for id in ids if id not in rows])
        ids = [id for id in ids if id in rows]
        repeated = find_repeated_prompts(question, look.which, [rows[id] for id in ids])
        if len(found) < limit or 2 * len(repeated) < limit or 4 * limit > MAX_LOOKED_AT:
            break
        limit *= 4
    others = set(repeated)
    new = [id for id in ids if id not in others]
    if limit > most:
        new, repeated = new[:most], repeated[:most]
    return FoundNew(new, repeated, {id: rows[id] for id in (*new, *repeated)})


def dated(look: Looked, question: Question, heard: Heard) -> list[str]:
    """List memories from the periods of the query, if keywords found few of them; keyword matches first."""
    found: list[str] = []
    repeated = set(heard.repeated)
    own, most = [row for id, row in heard.rows.items() if id not in repeated], DATED + len(repeated)
    for period in question.dates:
        start, end = period.start - question.zone, period.end - question.zone
        if sum(start <= said_at(row) <= end for row in own) < DATED:
            hold, session, which, now = look._replace(which=replace(look.which, said_since=start, said_until=end))
            found += [hit.id for hit in asking.candidates(session, hold.caller, heard.asked, which, now, limit=most)]
            forward = period.precision == "after"
            found += candidates.said(session, hold.caller, which, now, forward=forward, limit=most)
    return list(dict.fromkeys(found))


def said_at(one: Row | Memory) -> int:
    """Return when it happened, or else when it was stored."""
    return one.created_at if one.occurred_at is None else one.occurred_at


def _names(question: Question) -> list[str]:
    """List words of the query that may be names: capitalised in it, or any word if it has no capitals."""
    names = [word.capitalize() for word in question.words[:MOST_NAMES] if word.isalpha()]
    return [name for name in names if name in question.text] if question.text != question.text.lower() else names


def _speakers(rows: Iterable[Row]) -> set[str]:
    """Collect the speakers of memories and of their passages."""
    spoken = {row.speaker for row in rows if row.speaker}
    return spoken | {said.speaker for row in rows for said in row.parsed.lines if said.speaker}


def gather(
    look: Looked,
    question: Question,
    heard: Heard,
    asked: Embedding | None,
    fresh: Sequence[Kept],
    nearest: FoundNew,
    also: Sequence[str] = (),
    past: Past = PRESENT,
) -> Gathered:
    """Collect the candidates: hits of both channels, their thread neighbours and links, and the memories in `also`."""
    rows = heard.rows | nearest.rows
    rows |= _read(look, [id for id in also if id not in rows])
    linking = [*heard.found[:LINKING], *nearest.new[:LINKING], *list(past.rows)[:LINKING]]
    edges = _edges(look, linking, past.when)
    rows |= _read(look, [id for id in edges.linked if id not in rows]) | past.rows
    leading = [*heard.found[: heard.breadth.leading], *nearest.new[: heard.breadth.leading_nearest]]
    leading += [*heard.repeated[: heard.breadth.leading_nearest], *nearest.repeated[: heard.breadth.leading_nearest]]
    beside = _beside(look, rows, heard.around, leading)
    rows |= beside.following
    edges.superseded.update(_superseded(look, rows.keys() - set(linking), past.when))
    repeated = frozenset(find_repeated_prompts(question, look.which, rows.values()))
    asking = frozenset(find_asking_prompts(question, look.which, rows.values()))
    making = _Making(
        question=question,
        asked=_asked(heard.words),
        said={} if past.rows else heard.said,
        named=heard.named,
        near=_near(look, asked, fresh, rows, heard.vectors),
        around=beside.around,
        ids={**{row.rowno: row.id for row in rows.values()}, **{row.rowno: row.id for row in beside.others}},
        asking=frozenset(rows[id].rowno for id in asking),
        edges=edges,
        uses=memories.uses(look.session, list(rows)),
        utility=recalls.utilities(look.session, list(rows)),
        now=look.now,
    )
    return Gathered(
        candidates=[making.candidate(row) for id, row in rows.items() if id not in repeated],
        around=[*making.neighbours(beside.others), *(making.candidate(rows[id]) for id in rows if id in repeated)],
        scope=heard.scope,
        stems=tuple(heard.words),
        rows=rows,
        superseded=edges.superseded,
        uses=making.uses,
        then=past.memories,
        repeated_prompts=repeated,
        asking_prompts=asking,
    )


def _read(look: Looked, ids: Sequence[str]) -> dict[str, Row]:
    """Read the memories that pass the filter, in the given order."""
    if not ids:
        return {}
    read = candidates.by_ids(look.session, look.hold.caller, ids, look.which, look.now)
    found = {row.id: row for row in read}
    return {id: found[id] for id in ids if id in found}


class Edges(NamedTuple):
    """Links among candidates."""

    linked: dict[str, set[str]]
    superseded: dict[str, str]


def _edges(look: Looked, ids: Sequence[str], when: Then | None = None) -> Edges:
    """Read the links of memories in both directions, valid and known at that time."""
    linked: dict[str, set[str]] = {}
    superseded: dict[str, str] = {}
    if not ids:
        return Edges(linked, superseded)
    asked = (look.session, look.hold.caller, list(dict.fromkeys(ids)), _which(when), look.now)
    for edge in (*links.leaving(*asked, limit=MOST_LINKS), *links.entering(*asked, limit=MOST_LINKS)):
        if not _was_known(edge.link, when):
            continue
        source, target = edge.link.source, edge.link.target
        linked.setdefault(source, set()).add(target)
        linked.setdefault(target, set()).add(source)
        if edge.link.relation == "supersedes":
            superseded[target] = source
    return Edges(linked, superseded)


def _superseded(look: Looked, ids: Iterable[str], when: Then | None) -> dict[str, str]:
    """Find the successors of memories whose other links do not count."""
    wanted = list(ids)
    if not wanted:
        return {}
    which = replace(_which(when), relations=("supersedes",))
    found = links.entering(look.session, look.hold.caller, wanted, which, look.now, limit=MOST_LINKS)
    return {edge.link.target: edge.link.source for edge in found if _was_known(edge.link, when)}


def _which(when: Then | None) -> Which:
    return Which() if when is None else Which(view=None, valid_at=when.holds_at)


def _was_known(link: Link, when: Then | None) -> bool:
    return when is None or link.created_at <= when.known_at


class Beside(NamedTuple):
    """The thread neighbours of the candidates."""

    around: dict[int, Around]
    following: dict[str, Row]
    """Memories that follow the best hits and are candidates themselves."""
    others: list[Neighbour]


def _beside(look: Looked, rows: Mapping[str, Row], heard: Mapping[int, Around], leading: Sequence[str]) -> Beside:
    """Read thread neighbours, except those known already."""
    hold, session, which, now = look
    known = {row.rowno for row in rows.values()}
    around = {place: at for place, at in heard.items() if place in known}
    around |= _around(look, [row for row in rows.values() if row.rowno not in around])
    after = {
        place
        for id in leading
        if id in rows and (at := around.get(rows[id].rowno))
        for place in (at.after, at.long_after)
        if place is not None and place not in known
    }
    following = candidates.by_rows(session, hold.caller, after, which, now)
    around |= _around(look, following)
    known |= {row.rowno for row in following}
    others = {place for at in around.values() for place in at[:3] if place is not None and place not in known}
    read = candidates.neighbours(session, hold.caller, others, _whenever(which), now)
    return Beside(around, {row.id: row for row in following}, read)


def _around(look: Looked, rows: Iterable[Row]) -> dict[int, Around]:
    """Find the rows before and after the memories that are in a thread."""
    return candidates.around(look.session, [row.rowno for row in rows if row.strand])


def _whenever(which: Filter) -> Filter:
    """Return only the time part of a filter: neighbours of a hit need not match the rest."""
    return Filter(unchanged_since=which.unchanged_since, true_at=which.true_at)


def _near(
    look: Looked, asked: Embedding | None, fresh: Sequence[Kept], rows: Mapping[str, Row], known: Known
) -> dict[str, Near]:
    """Compute the cosine of each passage of the candidates; embeddings of another text version do not count."""
    if asked is None:
        return {}
    said = {id: row.content_hash for id, row in rows.items()}
    current = [one for one in fresh if said.get(one.memory) == one.text_hash]
    return vectors.nearness(look.session, asked, said, known) | measured(asked, current)


def measured(asked: Embedding, fresh: Sequence[Kept]) -> dict[str, Near]:
    """Compute the cosines of passages whose embeddings are not stored yet."""
    found: dict[str, Near] = {}
    for one, cosine in zip(fresh, cosines(asked.vector, [one.vector for one in fresh]), strict=True):
        found.setdefault(one.memory, {})[one.begins, one.ends] = cosine
    return found


def _scope(
    look: Looked, question: Question, words: dict[str, str], named: tuple[str, ...], last: int, held: Mapping[str, int]
) -> rank.Scope:
    """Read how rare the query words are within the filter, and which of them are names."""
    hold, session, which, now = look
    narrow = "*" not in hold.caller.namespaces or replace(which, archived=False) != EVERYTHING
    usual = hold.local(Usual)
    known = candidates.scope(session, hold.caller, words, which, now, usual, narrow=narrow, last=last, held=held)
    people = {stem for name in named for stem in tokens.stems(name)}
    events = tuple((event, frozenset(stems_of(event.words))) for event in question.events)
    return rank.Scope(*known, names=frozenset(people & set(words)), named=named, events=events)


class _Making(Struct, frozen=True):
    """Builds candidates from rows."""

    question: Question
    asked: Asked
    said: dict[str, Said]
    named: tuple[str, ...]
    near: dict[str, Near]
    around: dict[int, Around]
    ids: dict[int | None, str]
    asking: frozenset[int]
    """Rows of prompts that ask something."""
    edges: Edges
    uses: dict[str, tuple[int, int]]
    utility: dict[str, float]
    now: int

    def candidate(self, row: Row) -> rank.Candidate:
        """Positional arguments: with keywords, this hot path takes twice as long."""
        id, at = row.id, said_at(row)
        near, said = self.near.get(id, {}), self.said.get(id) or _said(row.parsed, self.asked)
        over = id in self.edges.superseded or (row.valid_until is not None and row.valid_until <= self.now)
        date = fitness(self.question.dates, at + self.question.zone) if self.question.dates else 0.0
        return rank.Candidate(
            id,
            _pieces(row, near, said),
            row.parsed.length,
            said.labels,
            near.get(REPLIES),
            row.speaker,
            *self._surroundings(row),
            row.parsed.asks,
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

    def _surroundings(self, row: Row) -> tuple[str | None, str | None, str | None, str | None]:
        """Return its group, and the ids one before it, two before it and one after it.

        A prompt that asks has none and counts only for the answer right after it: otherwise, in a long agent session,
        every question would lift every other one.
        """
        if row.rowno in self.asking:
            return (None, None, None, None)
        at = self.around.get(row.rowno, NOWHERE)
        others = [None if rowno in self.asking else self.ids.get(rowno) for rowno in (at.long_before, at.after)]
        return (_group(row), self.ids.get(at.before), others[0], others[1])

    def neighbours(self, rows: Iterable[Neighbour]) -> list[rank.Candidate]:
        """Build neighbours that are not candidates: their words as one passage, and their speaker."""
        return [
            rank.Candidate(
                row.id, (rank.Piece(0, 0, counts),), length_of(row.text), speaker=row.speaker, asks=is_asking(row.text)
            )
            for row in rows
            if (counts := _counted(row.text, _held(row.text, self.asked), self.asked)) or row.speaker in self.named
        ]


def _asked(stems: Iterable[str]) -> Asked:
    return {pad(stem): stem for stem in stems}


def _said(parsed: Parsed, asked: Asked) -> Said:
    held = _held(parsed.text, asked)
    return Said(_counted(parsed.labels, held, asked), [_counted(line.stems, held, asked) for line in parsed.lines])


def _held(text: str, asked: Asked) -> list[str]:
    """List the query stems in a parsed text; the others need not be counted in its parts."""
    return [padded for padded in asked if padded in text]


def _pieces(row: Row, near: Near, said: Said) -> list[rank.Piece]:
    """Build the passages of a memory. An embedding without a passage becomes one without words."""
    lines = row.parsed.lines
    cosines = [near.get((line.begins, line.ends)) for line in lines]
    found = [
        rank.Piece(line.begins, line.ends, counts, line.speaker, cosine)
        for line, counts, cosine in zip(lines, said.passages, cosines, strict=True)
    ]
    if len(near) == len(found) - cosines.count(None) + (REPLIES in near):
        return found
    spans = {(piece.begins, piece.ends) for piece in found} | {REPLIES}
    return found + [rank.Piece(*span, {}, row.speaker, near[span]) for span in near if span not in spans]


def _counted(stems: str, held: Sequence[str], asked: Asked) -> dict[str, int]:
    """Count the given stems in a part of a parsed text."""
    return {asked[padded]: count for padded in held if (count := stems.count(padded))} if held and stems else {}


def _group(row: Row) -> str | None:
    if row.strand is None or not row.strand.startswith("s "):
        return row.strand
    return f"{row.strand} {row.rowno // BLOCK}"
