"""Build the context for a query: one block of recalled memories, in time order, cited, fenced as data."""

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
"""Maximum number of packed hits."""
LOOKED_AT = 200
"""Maximum number of hits whose times count for gaps."""
DIGITS = 21
"""Digits of the word in the markers: three per token, 69 bits in all."""
MOST_STEPS = 8
"""Maximum number of successors that are followed."""


class Context(NamedTuple):
    block: pack.Block
    recalled: Recalled
    more: int | None = None
    """Number of other memories with a word of the query; None if unknown."""


def context(hold: Hold, ask: Ask, most_tokens: int) -> Context:
    """Recall and pack the hits. Only shown memories count as used."""
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
    """Return the times of all memories with a word of the query. None if it names a time or is about the past, or if
    there are too many."""
    now = hold.now()
    asked = question(ask.text, now if ask.now is None else ask.now, ask.zone)
    if asked.dates or is_past(ask):
        return None
    with hold.reading() as session:
        return said(session, hold.caller, asked.words, normal(ask.which), now)


def times_of(known: dict[str, int] | None, hits: list[Hit]) -> list[int] | None:
    """Collect the times of all matches and hits; None if not all are known."""
    return None if known is None else [*known.values(), *(said_at(hit.memory) for hit in hits)]


def is_past(ask: Ask) -> bool:
    return ask.as_of is not None or ask.known_at is not None


def looked_at(hits: list[Hit]) -> set[str]:
    """Return the ids of hits and of their duplicates."""
    return {id for hit in hits for id in (hit.memory.id, *hit.like)}


def new_fence() -> str:
    """Return an unpredictable word for the markers around a block: digits only, always seven tokens, so the size of the
    frame is constant."""
    return f"{randbelow(10**DIGITS):0{DIGITS}}"


def packable(hold: Hold, hits: list[Hit], *, past: bool = False) -> list[pack.Hit]:
    """Prepare hits for packing: each with its successors and its shortest unique id.

    For a query about the past, a successor is shown only if it is a hit too.
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
    """Read the hits, their successors and the successors of those, by id."""
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
    """Find the memories that supersede some others and that the caller may see."""
    which = Which(relations=("supersedes",))
    edges = links.entering(session, hold.caller, ids, which, hold.now(), limit=10 * len(ids))
    return {edge.link.target: edge.id for edge in edges}


def cited(session: Session, ids: Iterable[str]) -> dict[str, str]:
    """Shorten ids to their unique prefixes."""
    found = {}
    for id in dict.fromkeys(ids):
        beside = session.row("memory_id_beside", id=id) or ()
        found[id] = pack.shortest(id, [other for other in beside if other])
    return found
