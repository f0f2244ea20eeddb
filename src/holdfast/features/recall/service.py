"""Search memories by meaning and keywords, best match first. Writes nothing."""

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.embeddings import service as embed
from holdfast.features.embeddings import store as vectors
from holdfast.features.embeddings.service import FRESH
from holdfast.features.embeddings.store import REPLY, Due, Kept
from holdfast.features.history.snapshot import Then, then
from holdfast.features.memories import store as memories
from holdfast.features.memories.access_log import Uses
from holdfast.features.memories.find_memories import lost_contents, normal
from holdfast.features.memories.store import Filter
from holdfast.features.recall import budget, candidates
from holdfast.features.recall import ranking as rank
from holdfast.features.recall import recall_snapshot as past_recall
from holdfast.features.recall.candidates import Row
from holdfast.features.recall.captured_prompts import FRAME
from holdfast.features.recall.features import (
    FoundNew,
    Gathered,
    Heard,
    Looked,
    dated,
    find_new,
    gather,
    listen,
    measured,
    speakers,
)
from holdfast.features.recall.prefetch import Ahead
from holdfast.features.recall.query import Question, first_person, question, voices
from holdfast.features.recall.recall_log import Asked, Recalls
from holdfast.features.recall.recall_snapshot import PRESENT, Past
from holdfast.features.reflections import invalidation_store as invalidations
from holdfast.features.reflections.invalidation_store import Stale
from holdfast.kernel.context import Hold
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.errors import EmbedderFailed
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage import fts_tokens as tokens
from holdfast.kernel.storage.index_terms import in_one_line
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import STOP
from holdfast.kernel.vector import Embedding

SPARE = 2
"""Rank this many times the requested number, because duplicates are dropped afterwards."""
COMMON = frozenset(stem for word in STOP for stem in tokens.stems(word))
"""Stems that are ignored when two memories are compared."""
FEWEST_ALIKE = 5
"""Fewer distinctive words never make two memories duplicates."""


class Ask(NamedTuple):
    """A query, its filters and options."""

    text: str
    which: Filter = memories.EVERYTHING
    limit: int = 10
    without: Collection[str] = ()
    embedding: Embedding | None = None
    """Vector of the query, from the caller's own model."""
    now: int | None = None
    """Time of the query, for words such as yesterday. None: now."""
    zone: int = 0
    """Offset of the caller's clock from UTC, in microseconds."""
    as_of: int | None = None
    """Search what was true at this time."""
    known_at: int | None = None
    """Search what this store knew at this time."""
    noted: bool = True
    """Count the hits as used and log the query."""


class Hit(NamedTuple):
    memory: Memory
    score: float
    """Relative to the best hit, which has 1."""
    why: rank.Ranked
    like: tuple[str, ...] = ()
    """Duplicates that were left out."""
    superseded_by: str | None = None
    used: tuple[int, int] = (0, 0)
    """Number of accesses, and time of the last one."""
    long: bool = False
    """The memory has more than one passage."""
    stale: Stale | None = None
    """Set if a source of the memory changed."""


class Recalled(NamedTuple):
    id: str | None
    """Id to rate the hits. None if there are no hits, the query is about the past, or it was not logged."""
    hits: list[Hit]
    candidates: int
    packed: budget.Packed
    by_vectors: bool
    degraded: str | None
    question: Question


def recall(hold: Hold, ask: Ask, pick: Callable[[list[Hit]], tuple[list[Hit], budget.Packed]]) -> Recalled:
    """Find the memories that best answer a query: by keywords, by vectors, and next to either in a thread.

    Filters apply before ranking, ranking before the limit, the limit before the budget. `pick` chooses the hits.
    """
    ready = prepare(hold, ask)
    with hold.reading() as session:
        look = Looked(hold, session, ready.ask.which, ready.now)
        ready = _with_what_lost(look, ready)
        found = ordered(look, ready)
        hits = hits_of(look, settled(found.ranked, found.gathered), found.gathered, ready.ask)
    kept, packed = pick(hits)
    id = _noted(hold, ask, kept, ready.now) if ready.when is None and ask.noted else None
    by_vectors = any(one.why.cosine is not None for one in hits) or bool(found.nearest)
    degraded = ready.degraded
    if ready.vector is not None and hits and not by_vectors:
        degraded = degraded or NO_VECTORS
    return Recalled(id, kept, len(found.gathered.candidates), packed, by_vectors, degraded, ready.asked)


def _noted(hold: Hold, ask: Ask, hits: Sequence[Hit], now: int) -> str | None:
    """Add the accesses and the recall to the buffers that are flushed later."""
    hold.local(Uses).note(hold.caller.agent, [hit.memory.id for hit in hits], now)
    if not hits:
        return None
    asked = Asked(hold.new_id(), now, hold.caller.agent, ask.text, tuple(hit.why for hit in hits))
    hold.local(Recalls).note(asked)
    return asked.id


class Ready(NamedTuple):
    """A query that is ready for ranking: lexical hits, vector, time."""

    ask: Ask
    asked: Question
    heard: Heard
    vector: Embedding | None
    fresh: list[Kept]
    degraded: str | None
    now: int
    """The time at which filters apply; in the past for a query about the past."""
    when: Then | None


def prepare(hold: Hold, ask: Ask) -> Ready:
    """Parse a query, find its lexical hits and compute its vector."""
    ask = ask._replace(which=normal(ask.which))
    now = hold.now()
    if hold.embedder is not None and ask.embedding is None:
        hold.embedder.warm()
    asked = question(ask.text, now if ask.now is None else ask.now, ask.zone)
    when = None
    with Ahead() as ahead:
        with hold.reading() as session:
            if ask.as_of is not None or ask.known_at is not None:
                when = then(session, now, as_of=ask.as_of, known_at=ask.known_at)
                ask, now = ask._replace(which=when.unchanged(ask.which)), when.at
            look = Looked(hold, session, ask.which, now)
            known = speakers(look, asked)
            if embedder := _maker(hold, ask, asked):
                ahead.begin(embedder, _put(asked, voices(asked, known)))
            dim = _checked(hold, session, ask)
            due = _due(hold, session, ask, now)
            model, whole = embedder.model if embedder and dim else None, len(due) <= FRESH
            heard = listen(look, asked, known, model, without=ask.without, beside_vectors=bool(model) and whole)
        vector, fresh, degraded = _embedded(hold, ask, asked, heard, due, dim, ahead)
    if when is not None and when.degraded is not None:
        degraded = when.degraded
    return Ready(ask, asked, heard, vector, fresh, degraded, now, when)


class Ordered(NamedTuple):
    """The ranked candidates of a query."""

    gathered: Gathered
    nearest: list[str]
    ranked: list[rank.Ranked]
    """Best first."""


def ordered(look: Looked, ready: Ready, *, every: bool = False, also: Sequence[str] = ()) -> Ordered:
    """Rank the candidates: as many as the hits need, or every one. Memories in `also` are always candidates."""
    nearest = _nearest(look, ready, ready.vector) if ready.vector else FoundNew([], [], {})
    before = _past(look, ready, also) if ready.when else PRESENT
    said_then = [id for id in dated(look, ready.asked, ready.heard) if id not in ready.ask.without]
    gathered = gather(look, ready.asked, ready.heard, ready.vector, ready.fresh, nearest, (*said_then, *also), before)
    most = None if every else needed(ready.ask, gathered)
    found = rank.ranked(gathered.candidates, gathered.around, gathered.stems, gathered.scope, look.now, most=most)
    return Ordered(gathered, nearest.new, found)


def needed(ask: Ask, gathered: Gathered) -> int:
    """Number of candidates to rank: more than the limit, because duplicates do not become hits."""
    return SPARE * ask.limit + len(gathered.asking_prompts)


NO_VECTORS = "No current embeddings from this model: results are from keywords only."


def _checked(hold: Hold, session: Session, ask: Ask) -> int | None:
    """Return the dimension of the configured model. Raise if a vector of the caller does not fit its model."""
    if ask.embedding is not None:
        vectors.check(session, ask.embedding)
    return vectors.dim_of(session, hold.embedder.model) if hold.embedder and ask.embedding is None else None


def _due(hold: Hold, session: Session, ask: Ask, now: int) -> list[Due]:
    """List memories without embeddings, up to one more than recall embeds itself."""
    if hold.embedder is None or ask.embedding is not None:
        return []
    model = hold.embedder.model
    mark = vectors.mark(session, model)
    return vectors.due_seen(session, hold.caller, ask.which, now, model, mark, limit=FRESH + 1, entries=embed.ENTRIES)


def _maker(hold: Hold, ask: Ask, asked: Question) -> Embedder | None:
    """Return the embedder for the query. None if the caller gave a vector or the query has no words."""
    return hold.embedder if ask.embedding is None and asked.words else None


def _put(asked: Question, named: Sequence[str]) -> str:
    """Return the text of the query that is embedded."""
    return (first_person(asked.text, named) if asked.english else asked.text)[:LONGEST_QUESTION]


def _embedded(
    hold: Hold, ask: Ask, asked: Question, heard: Heard, due: Sequence[Due], dim: int | None, ahead: Ahead
) -> tuple[Embedding | None, list[Kept], str | None]:
    """Embed the query and the newest memories, outside of any transaction. Also return why anything is missing."""
    embedder = _maker(hold, ask, asked)
    if embedder is None:
        return ask.embedding, [], None if asked.words or ask.embedding else NO_WORDS
    try:
        vector = ahead.vector(embedder, _put(asked, heard.named))
        if vector is None:
            return None, [], UNREADABLE
        if dim not in (None, vector.dim):
            raise EmbedderFailed(
                f"{embedder.model} returned {vector.dim} dimensions; its stored embeddings have {dim}."
            )
        if len(due) > FRESH:
            return Embedding(embedder.model, vector), [], WAITING
        made = embed.made_of(hold, embedder, due, hold.now()) if due else {}
    except EmbedderFailed as error:
        return None, [], f"Keyword search only. {error.message}"
    return Embedding(embedder.model, vector), [one for many in made.values() for one in many], None


NO_WORDS = "The query has no words to search for."
LONGEST_QUESTION = 4000
"""Characters of a query that are embedded."""
UNREADABLE = "Keyword search only: the embedding model does not know the words of the query."
WAITING = "Many new memories have no embeddings yet. Run `holdfast reembed` to compute them."


def _nearest(look: Looked, ready: Ready, asked: Embedding) -> FoundNew:
    """Find the memories with the nearest passages, nearest first, including those embedded just now."""
    fresh = measured(asked, [one for one in ready.fresh if one.begins != REPLY])

    def find(limit: int) -> list[str]:
        found = vectors.nearest(look.session, look.hold.caller, asked, look.which, look.now, limit=limit)
        near = dict(found) | {id: max(passages.values()) for id, passages in fresh.items()}
        return [id for id in sorted(near, key=lambda id: (-near[id], id)) if near[id] >= rank.RELATED]

    heard = ready.heard
    return find_new(look, ready.asked, find, heard.breadth.nearest, without=ready.ask.without, known=heard.rows)


def _past(look: Looked, ready: Ready, also: Sequence[str]) -> Past:
    """Find matching memories that have changed since, in their past state."""
    assert ready.when is not None
    which = replace(look.which, unchanged_since=None, true_at=None)
    stems, most = tuple(ready.heard.words), ready.heard.breadth.found
    found = past_recall.past(look.hold, look.session, ready.when, which, stems, ready.vector, most, also)
    return found._replace(rows={id: row for id, row in found.rows.items() if id not in ready.ask.without})


def settled(order: Sequence[rank.Ranked], gathered: Gathered) -> list[rank.Ranked]:
    """Drop memories with a score of 0 or less; place superseded memories after their successors."""
    worth = [one for one in order if one.score > 0]
    places = {one.id: place for place, one in enumerate(worth)}

    def place(one: rank.Ranked) -> tuple[int, int]:
        by = places.get(gathered.superseded.get(one.id, ""), -1)
        return (max(by, places[one.id]), int(by >= places[one.id]))

    return sorted(worth, key=place)


def _with_what_lost(look: Looked, ready: Ready) -> Ready:
    """Add memories that match only by the losing side of a conflict."""
    if ready.when is not None:
        return ready
    asked, known = set(ready.heard.words), ready.heard.rows.keys() | set(ready.ask.without)
    lost = lost_contents(look.hold, look.session)
    said = {one.memory: one.text for one in lost if one.memory not in known and asked & set(tokens.found_by(one.text))}
    rows = candidates.by_ids(look.session, look.hold.caller, list(said), look.which, look.now) if said else []
    others = {row.id: replace(row, parsed=in_one_line(said[row.id])) for row in rows}
    return ready._replace(heard=ready.heard._replace(rows=ready.heard.rows | others)) if others else ready


def hits_of(look: Looked, order: Sequence[rank.Ranked], gathered: Gathered, ask: Ask) -> list[Hit]:
    """Build the first hits after duplicates are folded."""
    chosen, like = folded(order, gathered, ask.limit)
    view: memories.View = "kept" if ask.which.archived else "live"
    past = {one.id: gathered.then[one.id] for one in chosen if one.id in gathered.then}
    rows = [one.id for one in chosen if one.id not in past]
    read = memories.by_ids(look.session, look.hold.caller, rows, look.now, view) | past
    present = ask.as_of is None and ask.known_at is None
    stale = invalidations.stale(look.session, look.hold.caller, rows if present else [], look.now)
    shown = _falling([one.score for one in chosen])
    return [
        Hit(
            memory=read[one.id],
            score=round(score / shown[0], 6),
            why=one,
            like=tuple(like[one.id]),
            superseded_by=gathered.superseded.get(one.id),
            used=gathered.uses.get(one.id, (0, 0)),
            long=len(gathered.rows[one.id].parsed.lines) > 1,
            stale=stale.get(one.id),
        )
        for one, score in zip(chosen, shown, strict=True)
        if one.id in read
    ]


def words_held(memory: Memory, stems: Sequence[str], asked: str) -> list[str]:
    """List the query words that a memory contains, as written in it."""
    text = "\n".join((memory.title, memory.content, *memory.tags))
    found = tokens.standing(asked, stems) | tokens.standing(text, stems)
    return list(dict.fromkeys(word for stem in stems for word in found.get(stem, [stem])))


def _falling(scores: Sequence[float]) -> list[float]:
    """Raise scores so that none is below a later one: a successor scores at least as much as what it supersedes."""
    return list(accumulate(reversed(scores), max))[::-1]


def folded(
    order: Sequence[rank.Ranked], gathered: Gathered, limit: int
) -> tuple[list[rank.Ranked], dict[str, list[str]]]:
    """Return the first distinct memories, and the duplicates of each.

    A memory with its own time (`occurred_at`) is never a duplicate. A prompt is, whatever its time.
    """
    chosen: list[rank.Ranked] = []
    like: dict[str, list[str]] = {}
    said: dict[tuple[bool, tuple[str, ...]], str] = {}
    for one in order:
        row, asked = gathered.rows[one.id], one.id in gathered.asking_prompts
        timeless = asked or row.occurred_at is None
        words = _said(row, FRAME if asked else COMMON) if timeless else ()
        alone = timeless and one.id not in gathered.superseded
        twin = said.get((asked, words)) if alone and len(words) >= (1 if asked else FEWEST_ALIKE) else None
        if twin is not None and gathered.rows[twin].speaker == row.speaker:
            like[twin].append(one.id)
        elif len(chosen) < limit:
            chosen.append(one)
            like[one.id] = []
            if timeless:
                said[asked, words] = one.id
        else:
            break
    return chosen, like


def _said(row: Row, common: Collection[str]) -> tuple[str, ...]:
    """Return the words that distinguish a memory; a negation, a number or a name counts."""
    return tuple(sorted(stem for line in row.parsed.lines for stem in line.stems.split() if stem not in common))
