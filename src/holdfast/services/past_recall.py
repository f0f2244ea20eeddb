"""Find what a store knew at another moment, or what was true then, and is not what its rows say now."""

from collections.abc import Callable, Sequence
from heapq import heappush, heappushpop
from typing import NamedTuple

from ..domain import rank
from ..domain.memory import Memory
from ..domain.vector import Embedding
from ..storage import then, vectors
from ..storage.candidates import Row
from ..storage.memories import Filter
from ..storage.parsed import pad, read
from ..storage.port import Session
from ..storage.records import order_columns
from ..storage.then import State, Then
from .hold import Hold


class Past(NamedTuple):
    """What is not as it was, as it was."""

    when: Then | None = None
    rows: dict[str, Row] = {}
    memories: dict[str, Memory] = {}
    restated: frozenset[str] = frozenset()
    """What says something else now: its vectors are of that."""


PRESENT = Past()


class Best:
    """The best so many of what comes by, however much comes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[float, str, Row, State]] = []

    def add(self, score: float, row: Row, state: State) -> None:
        put = heappush if len(self._heap) < self._most else heappushpop
        put(self._heap, (score, row.id, row, state))

    def all(self) -> list[tuple[Row, State]]:
        return [(row, state) for _, _, row, state in sorted(self._heap, key=lambda one: (-one[0], one[1]))]


def past(
    hold: Hold, session: Session, when: Then, which: Filter, stems: Sequence[str], asked: Embedding | None, most: int
) -> Past:
    """Those that fit a question best, by words and by vectors: so many of each."""
    weight, words, near = _weighing(session, stems), Best(most), Best(most)
    number = 0
    for page in then.states(session, hold.caller, when, which):
        hold.progress.check()
        cosines = _cosines(session, asked, [state.memory.id for state in page if state.same_text])
        for state in page:
            number -= 1
            row = row_of(state.memory, number)
            if (score := weight(row)) > 0:
                words.add(score, row, state)
            if (cosine := cosines.get(row.id, 0.0)) >= rank.RELATED:
                near.add(cosine, row, state)
    found = [*words.all(), *near.all()]
    return Past(
        when=when,
        rows={row.id: row for row, _ in found},
        memories={row.id: state.memory for row, state in found},
        restated=frozenset(row.id for row, state in found if not state.same_text),
    )


def row_of(memory: Memory, number: int) -> Row:
    """A past state as the order needs it. It stands alone: what was said around it then is not looked for."""
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
        parsed=read(order_columns(memory)["parsed"]),
    )


def _weighing(session: Session, stems: Sequence[str]) -> Callable[[Row], float]:
    """How much the asked stems that a text holds say: the rarer the more."""
    last = session.newest_row()
    weights = rank.word_weights(stems, rank.Scope(last, 0.0, session.holding(list(stems), last), {}))
    padded = [(pad(stem), weight) for stem, weight in weights.items()]

    def weigh(row: Row) -> float:
        texts = (row.parsed.labels, *(line.stems for line in row.parsed.lines))
        return sum(weight for stem, weight in padded if any(stem in text for text in texts))

    return weigh


def _cosines(session: Session, asked: Embedding | None, ids: Sequence[str]) -> dict[str, float]:
    """How near some memories are that say what they said."""
    near = vectors.nearness(session, asked, ids) if asked is not None else {}
    return {id: max(one.cosine for one in many) for id, many in near.items()}
