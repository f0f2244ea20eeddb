"""Find the memories that bear on a question, best first. Writes nothing."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..domain import budget, rank
from ..domain.memory import Memory
from ..domain.vector import Embedding
from ..domain.words import asked
from ..storage import asking, memories, vectors
from ..storage.memories import Filter, Found
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
    by_vectors: bool


def recall(
    hold: Hold,
    session: Session,
    question: str,
    which: Filter,
    *,
    limit: int,
    budget_tokens: int | None = None,
    without: Collection[str] = (),
    embedding: Embedding | None = None,
) -> Recalled:
    """Any of the question's words, and what is near to its vector if it has one.

    Filters before ranking, ranking before the limit, the limit before the budget.
    """
    now, which, most = hold.now(), normal(which), 3 * limit + 20
    words = asking.question(session, asked(question))
    by_words = asking.candidates(session, hold.caller, words, which, now, limit=most)
    near = _near(hold, session, embedding, by_words, which, now, most) if embedding else {}
    candidates: Sequence[rank.Candidate] = rank.fused(by_words, near) if near else by_words
    ranked = rank.ranked((hit for hit in candidates if hit.id not in without), now)[:limit]
    read = memories.by_ids(session, hold.caller, [id for id, _ in ranked], now, "kept" if which.archived else "live")
    hits = [Hit(read[id], score) for id, score in ranked if id in read]
    kept, packed = budget.pack(hits, lambda hit: budget.estimate(rendered(hit.memory)), budget_tokens)
    hold.uses.note(hold.caller.agent, [hit.memory.id for hit in kept], now)
    return Recalled(kept, len(candidates), packed, bool(near))


def _near(
    hold: Hold, session: Session, asked: Embedding, found: list[Found], which: Filter, now: int, limit: int
) -> dict[str, Found]:
    """What lies nearest, and how near that is which was found already."""
    vectors.check(session, asked)
    nearest = vectors.nearest(session, hold.caller, asked.vector, asked.model, which, now, limit=limit)
    near = {hit.id: hit for hit in nearest}
    others = {hit.id: hit for hit in found if hit.id not in near} if len(nearest) == limit else {}
    cosines = vectors.cosines(session, hold.caller, asked.vector, asked.model, list(others), now)
    return near | {id: others[id]._replace(score=cosine) for id, cosine in cosines.items()}


def rendered(memory: Memory) -> str:
    """The text of a hit that an agent will read, which is what a budget counts."""
    return f"{memory.title}\n{memory.content}\n{' '.join(memory.tags)}"


def lineage(namespace: str) -> tuple[str, ...]:
    """A namespace and those above it: what holds there holds here."""
    segments = namespace.split("/")
    return tuple("/".join(segments[:length]) for length in range(len(segments), 0, -1))
