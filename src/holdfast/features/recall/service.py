"""Find the memories that bear on a question, best first. Writes nothing."""

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
"""So many times as many as are asked for are put in order: some say the same as others."""
COMMON = frozenset(stem for word in STOP for stem in tokens.stems(word))
"""What two memories may differ in and still say the same."""
FEWEST_ALIKE = 5
"""Words that a memory must have before another can be its like."""


class Ask(NamedTuple):
    """A question, and how it is to be answered."""

    text: str
    which: Filter = memories.EVERYTHING
    limit: int = 10
    without: Collection[str] = ()
    embedding: Embedding | None = None
    """Of the question, by the asker's own model."""
    now: int | None = None
    """When it is asked, for what counts from then; None: now."""
    zone: int = 0
    """How far ahead of UTC the clock of the one who asks is."""
    as_of: int | None = None
    """What was true then."""
    known_at: int | None = None
    """What this store knew then."""
    noted: bool = True
    """It counts as a use of what it finds, and the question is kept."""


class Hit(NamedTuple):
    memory: Memory
    score: float
    """Of the best one, a share."""
    why: rank.Ranked
    like: tuple[str, ...] = ()
    """Memories that say the same and are left out."""
    superseded_by: str | None = None
    used: tuple[int, int] = (0, 0)
    """How often, and when last."""
    long: bool = False
    """It has more than one passage."""
    stale: Stale | None = None
    """Why, if something it stands on fell."""


class Recalled(NamedTuple):
    id: str | None
    """By which something can be said of the hits; None: there are none, of this time or that were noted."""
    hits: list[Hit]
    candidates: int
    packed: budget.Packed
    by_vectors: bool
    degraded: str | None
    question: Question


def recall(hold: Hold, ask: Ask, pick: Callable[[list[Hit]], tuple[list[Hit], budget.Packed]]) -> Recalled:
    """Any of the question's words, what is near to its vector, and what was said around either.

    Filters before ranking, ranking before the limit, the limit before the budget: `pick` says which hits are shown.
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
    """Remember what was found, to be written down later."""
    hold.local(Uses).note(hold.caller.agent, [hit.memory.id for hit in hits], now)
    if not hits:
        return None
    asked = Asked(hold.new_id(), now, hold.caller.agent, ask.text, tuple(hit.why for hit in hits))
    hold.local(Recalls).note(asked)
    return asked.id


class Ready(NamedTuple):
    """A question for which candidates can be gathered."""

    ask: Ask
    asked: Question
    heard: Heard
    vector: Embedding | None
    fresh: list[Kept]
    degraded: str | None
    now: int
    """When it is looked at: in the past, if that is asked for."""
    when: Then | None


def prepare(hold: Hold, ask: Ask) -> Ready:
    """What the words of a question find, and its vector."""
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
    """The candidates of a question."""

    gathered: Gathered
    nearest: list[str]
    ranked: list[rank.Ranked]
    """Best first."""


def ordered(look: Looked, ready: Ready, *, every: bool = False, also: Sequence[str] = ()) -> Ordered:
    """The candidates in order, as many as the hits need or every one; `also` are candidates whatever found them."""
    nearest = _nearest(look, ready, ready.vector) if ready.vector else FoundNew([], [], {})
    before = _past(look, ready, also) if ready.when else PRESENT
    said_then = [id for id in dated(look, ready.asked, ready.heard) if id not in ready.ask.without]
    gathered = gather(look, ready.asked, ready.heard, ready.vector, ready.fresh, nearest, (*said_then, *also), before)
    most = None if every else needed(ready.ask, gathered)
    found = rank.ranked(gathered.candidates, gathered.around, gathered.stems, gathered.scope, look.now, most=most)
    return Ordered(gathered, nearest.new, found)


def needed(ask: Ask, gathered: Gathered) -> int:
    """How many candidates are put in order: of those that say or ask the same as another some are no hits."""
    return SPARE * ask.limit + len(gathered.asking_prompts)


NO_VECTORS = "None of these memories has a current vector by this model: they were found by words alone."


def _checked(hold: Hold, session: Session, ask: Ask) -> int | None:
    """How many numbers our own model's vectors have. One that the asker brought must fit those of its model."""
    if ask.embedding is not None:
        vectors.check(session, ask.embedding)
    return vectors.dim_of(session, hold.embedder.model) if hold.embedder and ask.embedding is None else None


def _due(hold: Hold, session: Session, ask: Ask, now: int) -> list[Due]:
    """What was kept so recently that it has no vectors; one more than can be made at once tells of more."""
    if hold.embedder is None or ask.embedding is not None:
        return []
    model = hold.embedder.model
    mark = vectors.mark(session, model)
    return vectors.due_seen(session, hold.caller, ask.which, now, model, mark, limit=FRESH + 1, entries=embed.ENTRIES)


def _maker(hold: Hold, ask: Ask, asked: Question) -> Embedder | None:
    """Who makes the question's vector, if there is something to make."""
    return hold.embedder if ask.embedding is None and asked.words else None


def _put(asked: Question, named: Sequence[str]) -> str:
    """A question as its vector is made of it."""
    return (first_person(asked.text, named) if asked.english else asked.text)[:LONGEST_QUESTION]


def _embedded(
    hold: Hold, ask: Ask, asked: Question, heard: Heard, due: Sequence[Due], dim: int | None, ahead: Ahead
) -> tuple[Embedding | None, list[Kept], str | None]:
    """The question's vector, those of the newest memories, and what is missing. Outside of any transaction."""
    embedder = _maker(hold, ask, asked)
    if embedder is None:
        return ask.embedding, [], None if asked.words or ask.embedding else NO_WORDS
    try:
        vector = ahead.vector(embedder, _put(asked, heard.named))
        if vector is None:
            return None, [], UNREADABLE
        if dim not in (None, vector.dim):
            raise EmbedderFailed(f"{embedder.model} gave {vector.dim} numbers where its vectors here have {dim}.")
        if len(due) > FRESH:
            return Embedding(embedder.model, vector), [], WAITING
        made = embed.made_of(hold, embedder, due, hold.now()) if due else {}
    except EmbedderFailed as error:
        return None, [], f"Found by words alone. {error.message}"
    return Embedding(embedder.model, vector), [one for many in made.values() for one in many], None


NO_WORDS = "The question holds no word to look for."
LONGEST_QUESTION = 4000
"""Characters of a question of which a vector is made."""
UNREADABLE = "Found by words alone: the model that makes vectors does not know the words of the question."
WAITING = "Many of the newest memories have no vectors yet: `holdfast reembed` makes them."


def _nearest(look: Looked, ready: Ready, asked: Embedding) -> FoundNew:
    """The memories that have the nearest passages, nearest first; those without any kept vector among them."""
    fresh = measured(asked, [one for one in ready.fresh if one.begins != REPLY])

    def find(limit: int) -> list[str]:
        found = vectors.nearest(look.session, look.hold.caller, asked, look.which, look.now, limit=limit)
        near = dict(found) | {id: max(passages.values()) for id, passages in fresh.items()}
        return [id for id in sorted(near, key=lambda id: (-near[id], id)) if near[id] >= rank.RELATED]

    heard = ready.heard
    return find_new(look, ready.asked, find, heard.breadth.nearest, without=ready.ask.without, known=heard.rows)


def _past(look: Looked, ready: Ready, also: Sequence[str]) -> Past:
    """What is not as it was, as it was."""
    assert ready.when is not None
    which = replace(look.which, unchanged_since=None, true_at=None)
    stems, most = tuple(ready.heard.words), ready.heard.breadth.found
    found = past_recall.past(look.hold, look.session, ready.when, which, stems, ready.vector, most, also)
    return found._replace(rows={id: row for id, row in found.rows.items() if id not in ready.ask.without})


def settled(order: Sequence[rank.Ranked], gathered: Gathered) -> list[rank.Ranked]:
    """Without what nothing speaks for: it was only said beside something. What was superseded comes after its heir."""
    worth = [one for one in order if one.score > 0]
    places = {one.id: place for place, one in enumerate(worth)}

    def place(one: rank.Ranked) -> tuple[int, int]:
        by = places.get(gathered.superseded.get(one.id, ""), -1)
        return (max(by, places[one.id]), int(by >= places[one.id]))

    return sorted(worth, key=place)


def _with_what_lost(look: Looked, ready: Ready) -> Ready:
    """A question with the memories of which only the side that lost a conflict holds its words."""
    if ready.when is not None:
        return ready
    asked, known = set(ready.heard.words), ready.heard.rows.keys() | set(ready.ask.without)
    lost = lost_contents(look.hold, look.session)
    said = {one.memory: one.text for one in lost if one.memory not in known and asked & set(tokens.found_by(one.text))}
    rows = candidates.by_ids(look.session, look.hold.caller, list(said), look.which, look.now) if said else []
    others = {row.id: replace(row, parsed=in_one_line(said[row.id])) for row in rows}
    return ready._replace(heard=ready.heard._replace(rows=ready.heard.rows | others)) if others else ready


def hits_of(look: Looked, order: Sequence[rank.Ranked], gathered: Gathered, ask: Ask) -> list[Hit]:
    """The first of what is left when what says the same is folded into one."""
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
    """The words by which a memory has what was asked for, as they stand in it; else as they were asked for."""
    text = "\n".join((memory.title, memory.content, *memory.tags))
    found = tokens.standing(asked, stems) | tokens.standing(text, stems)
    return list(dict.fromkeys(word for stem in stems for word in found.get(stem, [stem])))


def _falling(scores: Sequence[float]) -> list[float]:
    """Scores that never rise: what superseded another stands before it for at least as much."""
    return list(accumulate(reversed(scores), max))[::-1]


def folded(
    order: Sequence[rank.Ranked], gathered: Gathered, limit: int
) -> tuple[list[rank.Ranked], dict[str, list[str]]]:
    """The first so many that differ, and of each the ones that say the same.

    What happened at a time of its own is never left out: that it was said twice is worth knowing. That a prompt was
    asked twice is not.
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
    """The words of a memory, but for the most common: a negation, a number or a name makes another of it."""
    return tuple(sorted(stem for line in row.parsed.lines for stem in line.stems.split() if stem not in common))
