"""Find candidates in the past: states known or valid at another time that differ from the current rows."""

from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import heappush, heappushpop
from typing import NamedTuple

from holdfast.features.history import snapshot as history_snapshot
from holdfast.features.history.snapshot import PastMemory, Snapshot
from holdfast.features.memories.store import Filter
from holdfast.features.recall import search_index
from holdfast.features.recall.features import RELATED, Scope, compute_word_weights
from holdfast.features.recall.search_index import Row
from holdfast.kernel.context import Context
from holdfast.kernel.journal.kinds import content_hash, search_columns
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.index_terms import decode_terms
from holdfast.kernel.storage.port import Session
from holdfast.kernel.vector import Embedding


class PastCandidates(NamedTuple):
    """Past states of memories that have changed since."""

    snapshot: Snapshot | None = None
    rows: dict[str, Row] = {}
    memories: dict[str, Memory] = {}


NO_PAST = PastCandidates()


class BestStates:
    """Keeps the best states of a stream, up to a limit."""

    def __init__(self, limit: int) -> None:
        self._most = limit
        self._heap: list[tuple[float, str, PastMemory]] = []

    def add(self, score: float, state: PastMemory) -> None:
        push = heappush if len(self._heap) < self._most else heappushpop
        push(self._heap, (score, state.memory.id, state))

    def list_best(self) -> list[PastMemory]:
        return [state for _, _, state in sorted(self._heap, key=lambda one: (-one[0], one[1]))]


def find_past_candidates(
    ctx: Context,
    session: Session,
    snapshot: Snapshot,
    which: Filter,
    stems: Sequence[str],
    embedding: Embedding | None,
    limit: int,
    also: Collection[str] = (),
) -> PastCandidates:
    """Find the past states that match best by words and by vectors, up to `limit` each, and those of `also`."""
    weigh, words, near = _make_weigher(session, stems), BestStates(limit), BestStates(limit)
    others: list[PastMemory] = []
    for page in history_snapshot.read_past_pages(session, ctx.caller, snapshot, which):
        ctx.progress.check()
        cosines = _compute_cosines(session, embedding, [state.memory for state in page if state.has_same_text])
        for state in page:
            if (score := weigh(state.memory)) > 0:
                words.add(score, state)
            if (cosine := cosines.get(state.memory.id, 0.0)) >= RELATED:
                near.add(cosine, state)
        others += [state for state in page if state.memory.id in also]
    found = {state.memory.id: state for state in (*words.list_best(), *near.list_best(), *others)}
    return PastCandidates(
        snapshot=snapshot,
        rows={id: build_row(state.memory, -number) for number, (id, state) in enumerate(found.items(), 1)},
        memories={id: state.memory for id, state in found.items()},
    )


def build_row(memory: Memory, number: int) -> Row:
    """Build the row of a past state. It has no thread: its neighbours at that time are not read."""
    return Row(
        rowno=number,
        id=memory.id,
        speaker=memory.speaker,
        thread_key=None,
        occurred_at=memory.occurred_at,
        created_at=memory.created_at,
        updated_at=memory.updated_at,
        valid_until=memory.valid_until,
        priority=memory.priority,
        confidence=memory.confidence,
        content_hash=content_hash(memory.title, memory.content),
        kind=memory.kind,
        parsed=decode_terms(search_columns(memory)["index_terms"]),
    )


def _make_weigher(session: Session, stems: Sequence[str]) -> Callable[[Memory], float]:
    """Return a function that weighs the query stems in a memory; rarer ones count more."""
    last_row = session.newest_row()
    weights = compute_word_weights(stems, Scope(last_row, 0.0, session.document_frequencies(list(stems), last_row), {}))

    def weigh_memory(memory: Memory) -> float:
        held = index_terms.index_tokens(f"{memory.title} {memory.content} {' '.join(memory.tags)}")
        return sum(weights[stem] for stem in weights.keys() & set(held))

    return weigh_memory


def _compute_cosines(session: Session, embedding: Embedding | None, current: Iterable[Memory]) -> dict[str, float]:
    """Compute the cosines of memories whose text has not changed since."""
    if embedding is None:
        return {}
    near = search_index.compute_nearness(
        session, embedding, {one.id: content_hash(one.title, one.content) for one in current}
    )
    return {id: max(passages.values()) for id, passages in near.items()}
