"""Find candidates in the past: states known or valid at another time that differ from the current rows."""

from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import heappush, heappushpop
from typing import NamedTuple

from holdfast.features.embeddings import store as vectors
from holdfast.features.history import snapshot as then
from holdfast.features.history.snapshot import State, Then
from holdfast.features.memories.store import Filter
from holdfast.features.recall import ranking as rank
from holdfast.features.recall.candidates import Row
from holdfast.kernel.context import Hold
from holdfast.kernel.journal.columns import content_hash, order_columns
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage import fts_tokens as tokens
from holdfast.kernel.storage.index_terms import read
from holdfast.kernel.storage.port import Session
from holdfast.kernel.vector import Embedding


class Past(NamedTuple):
    """Past states of memories that have changed since."""

    when: Then | None = None
    rows: dict[str, Row] = {}
    memories: dict[str, Memory] = {}


PRESENT = Past()


class Best:
    """Keeps the best states of a stream, up to a limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[float, str, State]] = []

    def add(self, score: float, state: State) -> None:
        put = heappush if len(self._heap) < self._most else heappushpop
        put(self._heap, (score, state.memory.id, state))

    def all(self) -> list[State]:
        return [state for _, _, state in sorted(self._heap, key=lambda one: (-one[0], one[1]))]


def past(
    hold: Hold,
    session: Session,
    when: Then,
    which: Filter,
    stems: Sequence[str],
    asked: Embedding | None,
    most: int,
    also: Collection[str] = (),
) -> Past:
    """Find the past states that match best by words and by vectors, up to `most` each, and those of `also`."""
    weigh, words, near = _weighing(session, stems), Best(most), Best(most)
    others: list[State] = []
    for page in then.states(session, hold.caller, when, which):
        hold.progress.check()
        cosines = _cosines(session, asked, [state.memory for state in page if state.same_text])
        for state in page:
            if (score := weigh(state.memory)) > 0:
                words.add(score, state)
            if (cosine := cosines.get(state.memory.id, 0.0)) >= rank.RELATED:
                near.add(cosine, state)
        others += [state for state in page if state.memory.id in also]
    found = {state.memory.id: state for state in (*words.all(), *near.all(), *others)}
    return Past(
        when=when,
        rows={id: row_of(state.memory, -number) for number, (id, state) in enumerate(found.items(), 1)},
        memories={id: state.memory for id, state in found.items()},
    )


def row_of(memory: Memory, number: int) -> Row:
    """Build the row of a past state. It has no thread: its neighbours at that time are not read."""
    return Row(
        rowno=number,
        id=memory.id,
        speaker=memory.speaker,
        strand=None,
        occurred_at=memory.occurred_at,
        created_at=memory.created_at,
        updated_at=memory.updated_at,
        valid_until=memory.valid_until,
        priority=memory.priority,
        confidence=memory.confidence,
        content_hash=content_hash(memory.title, memory.content),
        kind=memory.kind,
        parsed=read(order_columns(memory)["parsed"]),
    )


def _weighing(session: Session, stems: Sequence[str]) -> Callable[[Memory], float]:
    """Return a function that weighs the query stems in a memory; rarer ones count more."""
    last = session.newest_row()
    weights = rank.word_weights(stems, rank.Scope(last, 0.0, session.holding(list(stems), last), {}))

    def weigh(memory: Memory) -> float:
        held = tokens.found_by(f"{memory.title} {memory.content} {' '.join(memory.tags)}")
        return sum(weights[stem] for stem in weights.keys() & set(held))

    return weigh


def _cosines(session: Session, asked: Embedding | None, said: Iterable[Memory]) -> dict[str, float]:
    """Compute the cosines of memories whose text has not changed since."""
    if asked is None:
        return {}
    near = vectors.nearness(session, asked, {one.id: content_hash(one.title, one.content) for one in said})
    return {id: max(passages.values()) for id, passages in near.items()}
