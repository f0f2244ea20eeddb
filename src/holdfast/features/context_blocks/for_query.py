"""What bears on a question as one block of text for an agent: within a budget, in time order, cited, fenced as data."""

from collections.abc import Iterable
from secrets import randbelow
from typing import NamedTuple

from holdfast.features.context_blocks import context_packing as pack
from holdfast.features.graph import store as links
from holdfast.features.graph.store import Which
from holdfast.features.memories import store as memories
from holdfast.features.memories.find_memories import normal
from holdfast.features.recall import budget
from holdfast.features.recall.features import said_at
from holdfast.features.recall.match_times import said
from holdfast.features.recall.query import question
from holdfast.features.recall.service import Ask, Hit, Recalled, recall
from holdfast.kernel.context import Hold
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.prompt_injection import suspicions

MOST = 50
"""Hits that are packed; a budget seldom holds as many."""
LOOKED_AT = 200
"""So many are looked at for when they were said: a gap is none if one of them lies in it."""
DIGITS = 21
"""Of the word in the marks: three make a token, and all of them 69 bits."""
MOST_STEPS = 8
"""So often what superseded a memory is followed to what superseded that."""


class Context(NamedTuple):
    block: pack.Block
    recalled: Recalled
    more: int | None = None
    """Memories that hold a word of the question and were not looked at; None: that is not known."""


def context(hold: Hold, ask: Ask, most_tokens: int) -> Context:
    """Recall, and pack what was found. Only what is shown counts as used."""
    done: list[tuple[pack.Block, int | None]] = []

    def pick(hits: list[Hit]) -> tuple[list[Hit], budget.Packed]:
        best, known = hits[:MOST], all_said(hold, ask)
        block = pack.block(
            packable(hold, best, past=is_past(ask)),
            budget=most_tokens,
            fence=new_fence(),
            now=hold.now() if ask.now is None else ask.now,
            times=times_of(known, hits),
        )
        done.append((block, None if known is None else len(known.keys() - looked_at(best))))
        kept = [hit for hit in best if hit.memory.id in set(block.cited)]
        return kept, budget.Packed(list(kept), block.tokens, block.dropped, overflow=False)

    found = recall(hold, ask._replace(limit=LOOKED_AT), pick)
    block, more = done[0]
    return Context(block, found, more)


def all_said(hold: Hold, ask: Ask) -> dict[str, int] | None:
    """When all was said that holds a word of the question; None: that is not all that bears on it, for it names a time,
    or too much does, or the past is asked about, of which the store cannot tell."""
    now = hold.now()
    asked = question(ask.text, now if ask.now is None else ask.now, ask.zone)
    if asked.dates or is_past(ask):
        return None
    with hold.reading() as session:
        return said(session, hold.caller, asked.words, normal(ask.which), now)


def times_of(known: dict[str, int] | None, hits: list[Hit]) -> list[int] | None:
    """When it was said that holds the words or was found otherwise; None: there is more, of which nobody knows when."""
    return None if known is None else [*known.values(), *(said_at(hit.memory) for hit in hits)]


def is_past(ask: Ask) -> bool:
    return ask.as_of is not None or ask.known_at is not None


def looked_at(hits: list[Hit]) -> set[str]:
    """Hits, and what says the same as they."""
    return {id for hit in hits for id in (hit.memory.id, *hit.like)}


def new_fence() -> str:
    """A word for the marks around a block that nobody could foresee: digits only, which take seven tokens whatever they
    are, so that a frame always has the same size."""
    return f"{randbelow(10**DIGITS):0{DIGITS}}"


def packable(hold: Hold, hits: list[Hit], *, past: bool = False) -> list[pack.Hit]:
    """Hits as they are packed: each with what superseded it, and the shortest id by which it can be found again.

    In the past only hits are known as they were: what superseded one is shown if it is another.
    """
    with hold.reading() as session:
        current = {hit.memory.id: (hit.memory, hit.superseded_by) for hit in hits}
        if not past:
            current = _current(hold, session, hits)
        cites = cited(session, [*(hit.memory.id for hit in hits), *current])

    def packed(memory: Memory, score: float, hit: Hit | None, newer: str | None, steps: int = MOST_STEPS) -> pack.Hit:
        became = current.get(newer or "")
        return pack.Hit(
            id=memory.id,
            text=memory.content,
            created_at=memory.created_at,
            occurred_at=memory.occurred_at,
            title=memory.title,
            speaker=memory.speaker,
            thread=memory.thread,
            place=memory.place,
            score=score,
            spans=() if hit is None or hit.why.piece is None else ((hit.why.piece.begins, hit.why.piece.ends),),
            superseded_by=packed(became[0], 0.0, None, became[1], steps - 1) if became and steps else None,
            valid_until=memory.valid_until,
            stale=hit.stale.cause if hit is not None and hit.stale is not None else None,
            untrusted=bool(suspicions(f"{memory.title}\n{memory.content}")),
            cite=cites[memory.id],
        )

    return [packed(hit.memory, hit.score, hit, hit.superseded_by) for hit in hits]


def _current(hold: Hold, session: Session, hits: list[Hit]) -> dict[str, tuple[Memory, str | None]]:
    """The hits, what superseded some of them, and what superseded that, by their ids."""
    found = {hit.memory.id: (hit.memory, hit.superseded_by) for hit in hits}
    wanted = {hit.superseded_by for hit in hits if hit.superseded_by and hit.superseded_by not in found}
    for _ in range(MOST_STEPS):
        read = memories.by_ids(session, hold.caller, wanted - found.keys(), hold.now()) if wanted else {}
        if not read:
            break
        newer = superseding(hold, session, list(read))
        found |= {id: (memory, newer.get(id)) for id, memory in read.items()}
        wanted = {id for id in newer.values() if id not in found}
    return found


def superseding(hold: Hold, session: Session, ids: list[str]) -> dict[str, str]:
    """What superseded some memories, as far as the caller may see it."""
    which = Which(relations=("supersedes",))
    edges = links.entering(session, hold.caller, ids, which, hold.now(), limit=10 * len(ids))
    return {edge.link.target: edge.id for edge in edges}


def cited(session: Session, ids: Iterable[str]) -> dict[str, str]:
    """Beginnings of ids that no other memory's id has."""
    found = {}
    for id in dict.fromkeys(ids):
        beside = session.row("memory_id_beside", id=id) or ()
        found[id] = pack.shortest(id, [other for other in beside if other])
    return found
