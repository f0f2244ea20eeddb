"""Build the context for a query: one block of recalled memories, in time order, cited, fenced as data."""

from collections.abc import Iterable
from secrets import randbelow
from typing import NamedTuple

from holdfast.features.context_blocks import context_packing, packed_memory
from holdfast.features.graph import store as link_store
from holdfast.features.graph.store import LinkFilter
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import normalize_filter
from holdfast.features.recall.candidates import occurred_or_created_at
from holdfast.features.recall.query import RecallRequest, parse_query
from holdfast.features.recall.search_index import find_match_times
from holdfast.features.recall.service import Hit, PackResult, RecallAnswer, recall
from holdfast.kernel.context import Context
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.content_scan import find_injections

MAX_HITS = 50
"""Maximum number of packed hits."""
MAX_LOOKED_AT = 200
"""Maximum number of hits whose times count for gaps."""
FENCE_DIGITS = 21
"""Digits of the word in the markers: three per token, 69 bits in all."""
MAX_STEPS = 8
"""Maximum number of successors that are followed."""


class QueryContext(NamedTuple):
    block: context_packing.PackedBlock
    result: RecallAnswer
    more: int | None = None
    """Number of other memories with a word of the query; None if unknown."""


def build_query_context(ctx: Context, request: RecallRequest, budget_tokens: int) -> QueryContext:
    """Recall and pack the hits. Only shown memories count as used."""
    packed_blocks: list[tuple[context_packing.PackedBlock, int | None]] = []

    def pick(hits: list[Hit]) -> tuple[list[Hit], PackResult]:
        best, match_times = hits[:MAX_HITS], find_all_match_times(ctx, request)
        block = context_packing.pack_block(
            prepare_hits(ctx, best, past=is_past(request)),
            budget=budget_tokens,
            fence=new_fence(),
            now=ctx.now() if request.now is None else request.now,
            times=collect_times(match_times, hits),
        )
        packed_blocks.append((block, None if match_times is None else len(match_times.keys() - list_covered_ids(best))))
        kept = [hit for hit in best if hit.memory.id in set(block.cited)]
        return kept, PackResult(list(kept), block.tokens, block.dropped, overflow=False)

    found = recall(ctx, request._replace(limit=MAX_LOOKED_AT), pick)
    block, more = packed_blocks[0]
    return QueryContext(block, found, more)


def find_all_match_times(ctx: Context, request: RecallRequest) -> dict[str, int] | None:
    """Return the times of all memories with a word of the query. None if it names a time or is about the past, or if
    there are too many."""
    now = ctx.now()
    query = parse_query(request.text, now if request.now is None else request.now, request.utc_offset)
    if query.dates or is_past(request):
        return None
    with ctx.reading() as session:
        return find_match_times(session, ctx.caller, query.words, normalize_filter(request.filter), now)


def collect_times(known: dict[str, int] | None, hits: list[Hit]) -> list[int] | None:
    """Collect the times of all matches and hits; None if not all are known."""
    return None if known is None else [*known.values(), *(occurred_or_created_at(hit.memory) for hit in hits)]


def is_past(request: RecallRequest) -> bool:
    return request.as_of is not None or request.known_at is not None


def list_covered_ids(hits: list[Hit]) -> set[str]:
    """Return the ids of hits and of their duplicates."""
    return {id for hit in hits for id in (hit.memory.id, *hit.like)}


def new_fence() -> str:
    """Return an unpredictable word for the markers around a block: digits only, always seven tokens, so the size of the
    frame is constant."""
    return f"{randbelow(10**FENCE_DIGITS):0{FENCE_DIGITS}}"


def prepare_hits(ctx: Context, hits: list[Hit], *, past: bool = False) -> list[packed_memory.PackedMemory]:
    """Prepare hits for packing: each with its successors and its shortest unique id.

    For a query about the past, a successor is shown only if it is a hit too.
    """
    with ctx.reading() as session:
        current = {hit.memory.id: (hit.memory, hit.superseded_by) for hit in hits}
        if not past:
            current = _read_current(ctx, session, hits)
        cites = shorten_ids(session, [*(hit.memory.id for hit in hits), *current])

    def build_memory(
        memory: Memory, score: float, hit: Hit | None, superseded_by: str | None, steps: int = MAX_STEPS
    ) -> packed_memory.PackedMemory:
        became = current.get(superseded_by or "")
        return packed_memory.PackedMemory(
            id=memory.id,
            text=memory.content,
            created_at=memory.created_at,
            occurred_at=memory.occurred_at,
            title=memory.title,
            speaker=memory.speaker,
            thread=memory.thread,
            place=memory.place,
            score=score,
            spans=()
            if hit is None or hit.ranked.passage is None
            else ((hit.ranked.passage.begins, hit.ranked.passage.ends),),
            superseded_by=build_memory(became[0], 0.0, None, became[1], steps - 1) if became and steps else None,
            valid_until=memory.valid_until,
            stale=hit.stale.cause if hit is not None and hit.stale is not None else None,
            untrusted=bool(find_injections(f"{memory.title}\n{memory.content}")),
            cite=cites[memory.id],
        )

    return [build_memory(hit.memory, hit.score, hit, hit.superseded_by) for hit in hits]


def _read_current(ctx: Context, session: Session, hits: list[Hit]) -> dict[str, tuple[Memory, str | None]]:
    """Read the hits, their successors and the successors of those, by id."""
    found = {hit.memory.id: (hit.memory, hit.superseded_by) for hit in hits}
    wanted = {hit.superseded_by for hit in hits if hit.superseded_by and hit.superseded_by not in found}
    for _ in range(MAX_STEPS):
        read = memories.by_ids(session, ctx.caller, wanted - found.keys(), ctx.now()) if wanted else {}
        if not read:
            break
        newer = find_superseding(ctx, session, list(read))
        found |= {id: (memory, newer.get(id)) for id, memory in read.items()}
        wanted = {id for id in newer.values() if id not in found}
    return found


def find_superseding(ctx: Context, session: Session, ids: list[str]) -> dict[str, str]:
    """Find the memories that supersede some others and that the caller may see."""
    which = LinkFilter(relations=("supersedes",))
    edges = link_store.list_incoming(session, ctx.caller, ids, which, ctx.now(), limit=10 * len(ids))
    return {edge.link.target: edge.id for edge in edges}


def shorten_ids(session: Session, ids: Iterable[str]) -> dict[str, str]:
    """Shorten ids to their unique prefixes."""
    found = {}
    for id in dict.fromkeys(ids):
        beside = session.row("memory_id_neighbours", id=id) or ()
        found[id] = context_packing.shortest_prefix(id, [other for other in beside if other])
    return found
