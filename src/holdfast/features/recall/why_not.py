"""Say what kept a memory out of an answer: a filter, a channel or a score."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from holdfast.features.embeddings import store as vectors
from holdfast.features.history import snapshot as then
from holdfast.features.history.snapshot import State
from holdfast.features.memories import store as memories
from holdfast.features.memories.find_memories import normal
from holdfast.features.memories.store import EVERYTHING, Filter, View
from holdfast.features.recall import ranking as rank
from holdfast.features.recall.budget import Packed
from holdfast.features.recall.candidates import Row
from holdfast.features.recall.features import Looked
from holdfast.features.recall.service import (
    Ask,
    Hit,
    Ordered,
    Ready,
    folded,
    hits_of,
    needed,
    ordered,
    prepare,
    settled,
)
from holdfast.kernel.context import Hold
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text import emoji
from holdfast.kernel.timestamps import to_text
from holdfast.kernel.vector import Embedding

Pick = Callable[[list[Hit]], tuple[list[Hit], Packed]]
"""Says which hits are shown."""


class Reason(NamedTuple):
    code: str
    message: str


class Explained(NamedTuple):
    """What became of a memory when something was asked."""

    memory: Memory
    returned: bool
    reasons: list[Reason]
    place: int | None = None
    """Among the hits; or which it would have among the candidates if there were no limit."""
    why: rank.Ranked | None = None
    last: float | None = None
    """The score of the last hit that is returned."""
    candidates: int | None = None
    degraded: str | None = None


def why_not(hold: Hold, id: str, ask: Ask, pick: Pick) -> Explained:
    """Why a memory is not among the hits of a question, or at which place it is. Writes nothing, counts no use."""
    ask = ask._replace(which=normal(ask.which))
    with hold.reading() as session:
        state = State(memories.resolve(session, hold.caller, id, hold.now(), view="any"), same_text=True)
        if ask.as_of is None and ask.known_at is None:
            filtered = list(_filtered(hold, session, state.memory, ask.which, hold.now()))
        else:
            state, filtered = _before(hold, session, state, ask)
    memory = state.memory
    if memory.id in ask.without:
        filtered.append(
            Reason("standard", "It states how the namespace works: it comes with the answer, not as a hit.")
        )
    if filtered:
        return Explained(memory, returned=False, reasons=filtered)
    return _ranked(hold, state, prepare(hold, ask), pick)


# Filters


def _filtered(hold: Hold, session: Session, memory: Memory, which: Filter, now: int) -> Iterator[Reason]:
    """Every part of a filter that keeps a memory out, each asked of the store by itself."""
    if not _passes(hold, session, memory, Filter(archived=which.archived), now, "live"):
        yield _state(memory)
    for name, part in _parts(which):
        if not _passes(hold, session, memory, part, now, "any"):
            yield Reason(name, _SAYS[name](memory, part))


def _passes(hold: Hold, session: Session, memory: Memory, which: Filter, now: int, view: View) -> bool:
    parts, params = memories.narrowed(hold.caller, which, now, view)
    return bool(session.assembled(("memory_ids", *parts, "memory.one"), params | {"id": memory.id}))


def _before(hold: Hold, session: Session, now: State, ask: Ask) -> tuple[State, list[Reason]]:
    """A memory as it was at the time that is asked about, and what kept it out then."""
    when = then.then(session, hold.now(), as_of=ask.as_of, known_at=ask.known_at)
    known = then.state_of(session, hold.caller, when._replace(true_at=None), now.memory.id)
    if known is None:
        return now, [Reason("unknown_then", "Nothing of it that is yours to see was known here then.")]
    state = then.state_of(session, hold.caller, when, now.memory.id)
    if state is None:
        return known, [Reason("untrue_then", "Nothing that it said was true then, as far as was known.")]
    return state, list(_filtered_then(state.memory, ask.which, when.at))


def _filtered_then(memory: Memory, which: Filter, at: int) -> Iterator[Reason]:
    """Every part of a filter that kept a past state out, which no row tells of."""
    if not then.alive(memory, at, archived=which.archived):
        yield _state(memory)
    for name, part in _parts(which):
        if not then.within(memory, part):
            yield Reason(name, _SAYS[name](memory, part))


def _parts(which: Filter) -> Iterator[tuple[str, Filter]]:
    """A filter's parts, each as a filter of its own; every tag is one."""
    for name in _SAYS:
        value = getattr(which, name)
        if name == "tags":
            yield from ((name, Filter(tags=(tag,))) for tag in value)
        elif value != getattr(EVERYTHING, name):
            yield name, Filter(**{name: value})


def _state(memory: Memory) -> Reason:
    match memory.state:
        case "deleted":
            return Reason(
                "deleted", "It was deleted: `holdfast history` shows the change, `holdfast undo` takes it back."
            )
        case "archived":
            return Reason("archived", "It was archived: ask with include_archived.")
        case _:
            return Reason("expired", "Its time is over: ask with include_archived.")


_SAYS: dict[str, Callable[[Memory, Filter], str]] = {
    "namespace": lambda memory, which: f"It lies in {memory.namespace}, not in {which.namespace}.",
    "namespaces": lambda memory, which: (
        f"It lies in {memory.namespace}; {which.namespaces[0]} and what lies above it was asked for."
    ),
    "under": lambda memory, which: f"It lies in {memory.namespace}, not under {which.under}.",
    "tier": lambda memory, which: f"Its tier is {memory.tier}, not {which.tier}.",
    "agent": lambda memory, which: f"It is by {memory.agent}, not by {which.agent}.",
    "min_priority": lambda memory, which: f"Its priority is {memory.priority}, below {which.min_priority}.",
    "since": lambda memory, which: f"It was made at {to_text(memory.created_at)}, before `since`.",
    "until": lambda memory, which: f"It was made at {to_text(memory.created_at)}, after `until`.",
    "tags": lambda memory, which: f"It does not have the tag {which.tags[0]}.",
    "kinds": lambda memory, which: f"Its kind is {memory.kind}, not {' or '.join(which.kinds)}.",
    "has_citations": lambda memory, which: "It cites nothing.",
    "source_uri": lambda memory, which: f"Its source is {memory.source_uri or 'not known'}.",
    "source_uri_prefix": lambda memory, which: f"Its source is {memory.source_uri or 'not known'}.",
    "confidence": lambda memory, which: f"Its confidence is {memory.confidence:g}, outside of what was asked for.",
    "as_agent": lambda memory, which: (
        f"From {which.as_agent} it is not to be seen: its scope is {memory.scope}, its namespace {memory.namespace}."
    ),
}


# The order

REPEATED = Reason(
    "repeats_question", "It is a prompt that only repeats the question: ask with the kind conversation to have it, too."
)


def _ranked(hold: Hold, state: State, ready: Ready, pick: Pick) -> Explained:
    memory = state.memory
    with hold.reading() as session:
        look = Looked(hold, session, ready.ask.which, ready.now)
        found = ordered(look, ready, every=True)
        candidates, gathered = len(found.gathered.candidates), found.gathered
        hits = hits_of(look, settled(found.ranked[: needed(ready.ask, gathered)], gathered), gathered, ready.ask)
        missed: list[Reason] = []
        if memory.id not in gathered.rows:
            nearest, found = found.nearest, ordered(look, ready, every=True, also=[memory.id])
            missed = list(_missed(look, state, ready, found, nearest))
    kept, _ = pick(hits)
    places = {hit.memory.id: place for place, hit in enumerate(kept, 1)}
    last = kept[-1].why.score if kept else None
    if memory.id in found.gathered.repeated_prompts:
        return Explained(memory, False, [REPEATED], None, None, last, candidates, ready.degraded)
    why = next((one for one in found.ranked if one.id == memory.id), None)
    if memory.id in places:
        told = Reason("returned", f"It is returned, at place {places[memory.id]} of {len(kept)}.")
        return Explained(memory, True, [told], places[memory.id], why, last, candidates, ready.degraded)
    dropped = {hit.memory.id for hit in hits} - places.keys()
    place, before = _outranked(memory, ready.ask, found, last, dropped)
    within = before[0].code == "limit" and place is not None and place <= ready.ask.limit
    reasons = missed if missed and within else [*missed, *before]
    return Explained(memory, False, reasons, place, why, last, candidates, ready.degraded)


def _outranked(
    memory: Memory, ask: Ask, found: Ordered, last: float | None, dropped: Collection[str]
) -> tuple[int | None, list[Reason]]:
    """Where it would stand, and what stands between it and the answer; `dropped` are the hits that did not fit."""
    order = settled(found.ranked, found.gathered)
    chosen, like = folded(order, found.gathered, len(order))
    places = {one.id: place for place, one in enumerate(chosen, 1)}
    twin = next((id for id, others in like.items() if memory.id in others), None)
    if twin is not None:
        told = Reason("folded", f"{twin} says the same and stands for it, at place {places[twin]}.")
        return places[twin], [told, _unfit(f"{twin} has", places[twin])] if twin in dropped else [told]
    place = places.get(memory.id)
    if place is None:
        return None, [Reason("unrelated", "Nothing in it speaks for the question: its score is not above zero.")]
    if memory.id in dropped:
        return place, [_unfit("It has", place)]
    score = next(one.score for one in chosen if one.id == memory.id)
    beside = "" if last is None else f"; the last hit has {last:.3f}"
    said = f"It has place {place} with a score of {score:.3f}{beside}. Asked for: {ask.limit}."
    return place, [Reason("limit", said)]


def _unfit(which: str, place: int) -> Reason:
    return Reason("budget", f"{which} place {place}, but does not fit into the budget.")


# The channels


def _missed(look: Looked, state: State, ready: Ready, found: Ordered, nearest: Sequence[str]) -> Iterator[Reason]:
    """Why neither words nor vectors found it."""
    id = state.memory.id
    why = next((one for one in found.ranked if one.id == id), None)
    yield _missed_by_words(ready, why.terms if why else ())
    pieces = [piece for one in found.gathered.candidates if one.id == id for piece in one.pieces]
    cosine = max((piece.cosine for piece in pieces if piece.cosine is not None), default=None)
    if not state.same_text and ready.vector is not None:
        yield Reason("no_vector", "Its vectors are of what it says now, not of what it said then.")
    else:
        yield _missed_by_vectors(look.session, ready, cosine, [found.gathered.rows[one] for one in nearest])


def _missed_by_words(ready: Ready, terms: Sequence[str]) -> Reason:
    words = ready.heard.words
    if not words:
        return Reason("no_words", "The question has no words to look for.")
    if not terms:
        return Reason(
            "no_words", f"It holds none of the words asked for: {', '.join(map(emoji.shown, words.values()))}."
        )
    asked, words_held = ready.heard.asked, [words[stem] for stem in terms]
    held = list(map(emoji.shown, words_held))
    if not {*asked.rare, *asked.common}.intersection(words_held):
        return Reason("common_words", f"It holds only words that too many memories hold: {', '.join(held)}.")
    others = ready.heard.breadth.found
    return Reason("words", f"It holds {', '.join(held)}, but {others} others fit the words of the question better.")


def _missed_by_vectors(session: Session, ready: Ready, cosine: float | None, nearest: Sequence[Row]) -> Reason:
    if ready.vector is None:
        return Reason("no_question_vector", ready.degraded or "No vectors are made here: set `embedder`.")
    if cosine is None:
        return Reason("no_vector", f"It has no vector by {ready.vector.model} yet: `holdfast reembed` makes it.")
    if cosine < rank.RELATED:
        return Reason("far", f"Its vector is not near to the question: {cosine:.3f}, where {rank.RELATED} is needed.")
    return Reason("vectors", f"Its vector is as near as {cosine:.3f}; {_reach(session, ready.vector, nearest)}.")


def _reach(session: Session, asked: Embedding, nearest: Sequence[Row]) -> str:
    """How near the last of the nearest is."""
    near = vectors.nearness(session, asked, {row.id: row.content_hash for row in nearest[-1:]})
    least = max((cosine for passages in near.values() for cosine in passages.values()), default=None)
    return f"{len(nearest)} others are nearer" + ("" if least is None else f", the last of them {least:.3f}")
