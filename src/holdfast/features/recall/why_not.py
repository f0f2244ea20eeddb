"""Explain why recall does not return a memory: a filter, a search that missed it, or its score."""

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
"""Chooses the hits to return."""


class Reason(NamedTuple):
    code: str
    message: str


class Explained(NamedTuple):
    """Why a query does or does not return a memory."""

    memory: Memory
    returned: bool
    reasons: list[Reason]
    place: int | None = None
    """Its place among the hits, or else among all candidates without a limit."""
    why: rank.Ranked | None = None
    last: float | None = None
    """Score of the last returned hit."""
    candidates: int | None = None
    degraded: str | None = None


def why_not(hold: Hold, id: str, ask: Ask, pick: Pick) -> Explained:
    """Explain why a memory is not among the hits, or at which place it is. Writes nothing and counts no access."""
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
            Reason("standard", "It is a standard of the namespace: returned with the answer, not as a hit.")
        )
    if filtered:
        return Explained(memory, returned=False, reasons=filtered)
    return _ranked(hold, state, prepare(hold, ask), pick)


# Filters


def _filtered(hold: Hold, session: Session, memory: Memory, which: Filter, now: int) -> Iterator[Reason]:
    """List every part of the filter that excludes a memory; each is tested separately."""
    if not _passes(hold, session, memory, Filter(archived=which.archived), now, "live"):
        yield _state(memory)
    for name, part in _parts(which):
        if not _passes(hold, session, memory, part, now, "any"):
            yield Reason(name, _SAYS[name](memory, part))


def _passes(hold: Hold, session: Session, memory: Memory, which: Filter, now: int, view: View) -> bool:
    parts, params = memories.narrowed(hold.caller, which, now, view)
    return bool(session.assembled(("memory_ids", *parts, "memory.one"), params | {"id": memory.id}))


def _before(hold: Hold, session: Session, now: State, ask: Ask) -> tuple[State, list[Reason]]:
    """Return a memory's state at the time of the query, and what excluded it then."""
    when = then.then(session, hold.now(), as_of=ask.as_of, known_at=ask.known_at)
    known = then.state_of(session, hold.caller, when._replace(true_at=None), now.memory.id)
    if known is None:
        return now, [Reason("unknown_then", "This store had no version visible to you at that time.")]
    state = then.state_of(session, hold.caller, when, now.memory.id)
    if state is None:
        return known, [Reason("untrue_then", "No version of it was valid at that time.")]
    return state, list(_filtered_then(state.memory, ask.which, when.at))


def _filtered_then(memory: Memory, which: Filter, at: int) -> Iterator[Reason]:
    """List every part of the filter that excludes a past state."""
    if not then.alive(memory, at, archived=which.archived):
        yield _state(memory)
    for name, part in _parts(which):
        if not then.within(memory, part):
            yield Reason(name, _SAYS[name](memory, part))


def _parts(which: Filter) -> Iterator[tuple[str, Filter]]:
    """Split a filter into one filter per part; every tag is a part."""
    for name in _SAYS:
        value = getattr(which, name)
        if name == "tags":
            yield from ((name, Filter(tags=(tag,))) for tag in value)
        elif value != getattr(EVERYTHING, name):
            yield name, Filter(**{name: value})


def _state(memory: Memory) -> Reason:
    match memory.state:
        case "deleted":
            return Reason("deleted", "Deleted. `holdfast history` shows the change, `holdfast undo` reverts it.")
        case "archived":
            return Reason("archived", "Archived. Use include_archived to find it.")
        case _:
            return Reason("expired", "Expired. Use include_archived to find it.")


_SAYS: dict[str, Callable[[Memory, Filter], str]] = {
    "namespace": lambda memory, which: f"It is in `{memory.namespace}`, not in `{which.namespace}`.",
    "namespaces": lambda memory, which: (
        f"It is in `{memory.namespace}`; the search covered `{which.namespaces[0]}` and its parents."
    ),
    "under": lambda memory, which: f"It is in `{memory.namespace}`, not below `{which.under}`.",
    "tier": lambda memory, which: f"Its tier is {memory.tier}, not {which.tier}.",
    "agent": lambda memory, which: f"It is by {memory.agent}, not by {which.agent}.",
    "min_priority": lambda memory, which: f"Its priority is {memory.priority}, below {which.min_priority}.",
    "since": lambda memory, which: f"It was stored at {to_text(memory.created_at)}, before `since`.",
    "until": lambda memory, which: f"It was stored at {to_text(memory.created_at)}, after `until`.",
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

REPEATED = Reason(
    "repeats_question", "It is a prompt that only repeats the query. Use the kind conversation to include prompts."
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
    """Return its place without a limit, and what keeps it out; `dropped` are the hits that exceed the budget."""
    order = settled(found.ranked, found.gathered)
    chosen, like = folded(order, found.gathered, len(order))
    places = {one.id: place for place, one in enumerate(chosen, 1)}
    twin = next((id for id, others in like.items() if memory.id in others), None)
    if twin is not None:
        told = Reason("folded", f"It is a duplicate of {twin}, which has place {places[twin]}.")
        return places[twin], [told, _unfit(f"{twin} has", places[twin])] if twin in dropped else [told]
    place = places.get(memory.id)
    if place is None:
        return None, [Reason("unrelated", "It does not match the query: its score is not above 0.")]
    if memory.id in dropped:
        return place, [_unfit("It has", place)]
    score = next(one.score for one in chosen if one.id == memory.id)
    beside = "" if last is None else f"; the last hit has {last:.3f}"
    said = f"It has place {place} with a score of {score:.3f}{beside}. The limit is {ask.limit}."
    return place, [Reason("limit", said)]


def _unfit(which: str, place: int) -> Reason:
    return Reason("budget", f"{which} place {place}, but exceeds the token budget.")


# The channels


def _missed(look: Looked, state: State, ready: Ready, found: Ordered, nearest: Sequence[str]) -> Iterator[Reason]:
    """Explain why neither keyword nor vector search found it."""
    id = state.memory.id
    why = next((one for one in found.ranked if one.id == id), None)
    yield _missed_by_words(ready, why.terms if why else ())
    pieces = [piece for one in found.gathered.candidates if one.id == id for piece in one.pieces]
    cosine = max((piece.cosine for piece in pieces if piece.cosine is not None), default=None)
    if not state.same_text and ready.vector is not None:
        yield Reason("no_vector", "Its embeddings are of its current text, not of its text at that time.")
    else:
        yield _missed_by_vectors(look.session, ready, cosine, [found.gathered.rows[one] for one in nearest])


def _missed_by_words(ready: Ready, terms: Sequence[str]) -> Reason:
    words = ready.heard.words
    if not words:
        return Reason("no_words", "The query has no words to search for.")
    if not terms:
        return Reason(
            "no_words", f"It contains none of the query words: {', '.join(map(emoji.shown, words.values()))}."
        )
    asked, words_held = ready.heard.asked, [words[stem] for stem in terms]
    held = list(map(emoji.shown, words_held))
    if not {*asked.rare, *asked.common}.intersection(words_held):
        return Reason("common_words", f"It contains only query words that are too common: {', '.join(held)}.")
    others = ready.heard.breadth.found
    return Reason("words", f"It contains {', '.join(held)}, but {others} other memories match the query words better.")


def _missed_by_vectors(session: Session, ready: Ready, cosine: float | None, nearest: Sequence[Row]) -> Reason:
    if ready.vector is None:
        return Reason("no_question_vector", ready.degraded or "No embedding model is configured: set `embedder`.")
    if cosine is None:
        return Reason(
            "no_vector", f"It has no embedding from {ready.vector.model} yet. Run `holdfast reembed` to compute it."
        )
    if cosine < rank.RELATED:
        return Reason("far", f"Its embedding is too far from the query: cosine {cosine:.3f}, minimum {rank.RELATED}.")
    return Reason("vectors", f"The cosine of its embedding is {cosine:.3f}; {_reach(session, ready.vector, nearest)}.")


def _reach(session: Session, asked: Embedding, nearest: Sequence[Row]) -> str:
    """Describe how many memories are nearer, and the cosine of the last of them."""
    near = vectors.nearness(session, asked, {row.id: row.content_hash for row in nearest[-1:]})
    least = max((cosine for passages in near.values() for cosine in passages.values()), default=None)
    return f"{len(nearest)} others are nearer" + ("" if least is None else f", the last with {least:.3f}")
