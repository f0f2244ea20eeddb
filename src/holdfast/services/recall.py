"""Find the memories that bear on a question, best first. Writes nothing."""

from collections.abc import Collection
from typing import NamedTuple

from ..domain import budget, rank
from ..domain.memory import Memory
from ..domain.words import asked
from ..storage import asking, memories
from ..storage.memories import Filter
from ..storage.port import Session
from .find import normal
from .hold import Hold


class Hit(NamedTuple):
    memory: Memory
    score: float


class Recalled(NamedTuple):
    hits: list[Hit]
    candidates: int
    packed: budget.Packed


def recall(
    hold: Hold,
    session: Session,
    question: str,
    which: Filter,
    *,
    limit: int,
    budget_tokens: int | None = None,
    without: Collection[str] = (),
) -> Recalled:
    """Any of the question's words; filters before ranking, ranking before the limit, the limit before the budget."""
    now = hold.now()
    words = asking.question(session, asked(question))
    candidates = asking.candidates(session, hold.caller, words, normal(which), now, limit=3 * limit + 20)
    ranked = rank.ranked((hit for hit in candidates if hit.id not in without), now)[:limit]
    read = memories.by_ids(session, hold.caller, [id for id, _ in ranked], now, "kept" if which.archived else "live")
    hits = [Hit(read[id], score) for id, score in ranked if id in read]
    kept, packed = budget.pack(hits, lambda hit: budget.estimate(rendered(hit.memory)), budget_tokens)
    hold.uses.note(hold.caller.agent, [hit.memory.id for hit in kept], now)
    return Recalled(kept, len(candidates), packed)


def rendered(memory: Memory) -> str:
    """The text of a hit that an agent will read, which is what a budget counts."""
    return f"{memory.title}\n{memory.content}\n{' '.join(memory.tags)}"


def lineage(namespace: str) -> tuple[str, ...]:
    """A namespace and those above it: what holds there holds here."""
    segments = namespace.split("/")
    return tuple("/".join(segments[:length]) for length in range(len(segments), 0, -1))
