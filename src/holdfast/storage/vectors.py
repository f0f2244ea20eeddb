"""The vectors of memories: of this store alone, several models side by side, never mixed."""

from collections.abc import Sequence
from typing import NamedTuple

from ..domain.caller import Caller
from ..domain.memory import Memory
from ..domain.vector import Embedding, Vector, must_fit
from .memories import EVERYTHING, Filter, Found, narrowed
from .port import Session
from .records import content_hash


class Kept(NamedTuple):
    """A memory's vector as it is kept."""

    memory: str
    model: str
    dim: int
    text_hash: str
    """Of the text that it was made of; if the memory has another by now, this is stale."""
    made_at: int
    vector: Vector


class Count(NamedTuple):
    """What there is of a model."""

    model: str
    dim: int
    kept: int
    stale: int


def check(session: Session, given: Embedding) -> None:
    """Raise unless a vector has as many numbers as the others of its model."""
    row = session.row("embedding_dim", model=given.model)
    must_fit(given, row[0] if row else None)


def put(session: Session, memory: Memory, given: Embedding, now: int) -> None:
    """Keep the vector of a memory's text as it is now, in the place of an older one by the same model."""
    text_hash = content_hash(memory.title, memory.content)
    keep(session, [Kept(memory.id, given.model, given.vector.dim, text_hash, now, given.vector)])


def keep(session: Session, many: Sequence[Kept]) -> None:
    """Keep vectors as they were kept elsewhere."""
    session.many("embedding_put", ({**one._asdict(), "vector": Vector(one.vector)} for one in many))


def drop(session: Session, memory: str) -> None:
    """Forget every vector of a memory."""
    session.do("embedding_drop", memory=memory)


def counts(session: Session, caller: Caller, now: int) -> list[Count]:
    """What there is of each model, among what a caller may see."""
    parts, params = narrowed(caller, EVERYTHING, now)
    rows = session.assembled(("embedding_count", *parts, "embedding_count.per_model"), params)
    return [Count(*row) for row in rows]


def nearest(
    session: Session, caller: Caller, vector: Vector, model: str, which: Filter, now: int, *, limit: int
) -> list[Found]:
    """The memories whose text lies nearest by the cosine, which is their score; of equals, the lesser id first.

    Every filter applies before the limit. A vector of what a memory said before does not count.
    """
    parts, params = narrowed(caller, which, now)
    return [Found(*row) for row in session.nearest(vector, parts, params | {"model": model}, limit)]


def cosines(
    session: Session, caller: Caller, vector: Vector, model: str, ids: Sequence[str], now: int
) -> dict[str, float]:
    """How near those of some memories are that have a current vector."""
    if not ids:
        return {}
    parts, params = narrowed(caller, EVERYTHING, now, "kept")
    params |= {"model": model, "ids": list(ids)}
    found = session.nearest(vector, [*parts, "memory.some"], params, len(ids))
    return {row[0]: row[1] for row in found}
