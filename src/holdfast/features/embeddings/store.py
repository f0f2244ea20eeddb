"""The vectors of memories, a passage each: of this store alone, several models side by side, never mixed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.features.memories.store import EVERYTHING, Filter, narrowed
from holdfast.kernel.caller import Caller
from holdfast.kernel.cosine import cosines
from holdfast.kernel.journal.columns import content_hash
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Part, Row, Session
from holdfast.kernel.vector import Embedding, Vector, must_fit

TITLE = -1
"""Where a passage begins that is the title."""
REPLY = -2
"""Where one begins that is the end of what a memory replies to, and all of the reply: it finds nothing by itself."""


class Kept(NamedTuple):
    """A passage's vector as it is kept."""

    memory: str
    model: str
    begins: int
    ends: int
    dim: int
    text_hash: str
    """Of the text that it was made of; if the memory has another by now, this is stale."""
    made_at: int
    vector: Vector


class Count(NamedTuple):
    """What there is of a model."""

    model: str
    dim: int
    memories: int
    kept: int
    stale: int


Near = dict[tuple[int, int], float]
"""How near each passage of a memory is to what was asked for, by where it begins and ends."""


Known = dict[str, list[Row]]
"""The vectors of memories as they are kept, a row for each passage."""
NONE: Known = {}


class Due(NamedTuple):
    """A memory that has no vectors of what it says."""

    row: int
    id: str
    title: str
    content: str
    text_hash: str


class Mark(msgspec.Struct, frozen=True):
    """How far the vectors of a model are made: for every row up to one, and for what was changed up to a place in the
    journal."""

    row: int
    seq: int
    whole: bool = False
    """Every row has been looked at once; from now on the journal tells what is new."""
    renewed: int = -1
    """Vectors that were made up to this moment are made again, row by row; they serve until then."""


def dim_of(session: Session, model: str) -> int | None:
    """How many numbers the vectors of a model have; None if there are none."""
    row = session.row("embedding_dim", model=model)
    return int(row[0]) if row else None


def check(session: Session, given: Embedding) -> None:
    """Raise unless a vector has as many numbers as the others of its model."""
    must_fit(given, dim_of(session, given.model))


def put(session: Session, memory: Memory, given: Embedding, now: int) -> None:
    """Keep one vector of a memory's whole text as it is now, in the place of older ones by the same model."""
    text_hash = content_hash(memory.title, memory.content)
    put_all(
        session, [Kept(memory.id, given.model, 0, len(memory.content), given.vector.dim, text_hash, now, given.vector)]
    )


def put_all(session: Session, many: Sequence[Kept]) -> None:
    """Keep the vectors of memories, in the place of others by the same model; all have as many numbers."""
    for model, vector in {(one.model, one.dim): (one.model, Vector(one.vector)) for one in many}.values():
        check(session, Embedding(model, vector))
    owners = dict.fromkeys((one.memory, one.model) for one in many)
    session.many("embedding_clear", ({"memory": memory, "model": model} for memory, model in owners))
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
    session: Session, caller: Caller, asked: Embedding, which: Filter, now: int, *, limit: int
) -> list[tuple[str, float]]:
    """The memories that have a passage nearest by the cosine; of equals, the lesser id first.

    Every filter applies before the limit. A vector of what a memory said before does not count.
    """
    parts, params = narrowed(caller, which, now)
    rows = session.nearest(asked.vector, parts, params | {"model": asked.model}, limit)
    return [(id, cosine) for id, cosine in rows]


CLOSE = 0.85
"""From this cosine on two texts nearly say the same."""


def close(
    session: Session, caller: Caller, model: str, many: Sequence[Vector], which: Filter, now: int, *, limit: int
) -> list[list[str]]:
    """For each vector the memories that have a passage very near, the nearest first; of equals, the lesser id first.

    For many texts at once: what is merely near is not looked for. Every filter applies before the limit.
    """
    parts, params = narrowed(caller, which, now)
    params |= {"model": model}
    found = session.close(many, parts, params, limit)
    if found is None:
        found = [session.nearest(one, parts, params, limit) for one in many]
    return [[id for id, cosine in hits if cosine >= CLOSE] for hits in found]


def kept(session: Session, ids: Iterable[str], model: str) -> Known:
    """The vectors of some memories as they are kept, for `nearness`."""
    found: Known = {id: [] for id in ids}
    for row in session.vectors(list(found), model) if found else ():
        found[row[0]].append(row)
    return found


def nearness(session: Session, asked: Embedding, said: Mapping[str, str], known: Known = NONE) -> dict[str, Near]:
    """How near each passage is of memories of which we know what they say, as far as they have vectors of that.

    The vectors of some may be known already.
    """
    read = known | kept(session, said.keys() - known.keys(), asked.model)
    rows = [row for id in sorted(said) for row in read[id] if row[4] == said[id]]
    found: dict[str, Near] = {}
    for row, cosine in zip(rows, cosines(asked.vector, [row[3] for row in rows]), strict=True):
        found.setdefault(row[0], {})[row[1], row[2]] = cosine
    return found


# What is still to be made


def mark(session: Session, model: str) -> Mark | None:
    """How far the vectors of a model are made; None: nobody began."""
    row = session.row("kept_get", name=f"vectors {model}")
    return None if row is None else msgspec.json.decode(row[0], type=Mark)


def set_mark(session: Session, model: str, to: Mark) -> None:
    session.do("kept_put", name=f"vectors {model}", body=msgspec.json.encode(to).decode())


def due_rows(session: Session, model: str, after: int, limit: int, *, renewed: int = -1) -> list[Due]:
    """The next memories without current vectors that were made after a moment, in the order of their rows."""
    return _due(session, [], {"model": model, "after": after, "limit": limit, "renewed": renewed})


def due_among(session: Session, model: str, ids: Sequence[str], *, renewed: int = -1) -> list[Due]:
    """Those of some memories that have no current vectors that were made after a moment."""
    params = {"model": model, "after": 0, "ids": list(ids), "limit": len(ids), "renewed": renewed}
    return _due(session, ["memory.some"], params) if ids else []


def due_seen(
    session: Session,
    caller: Caller,
    which: Filter,
    now: int,
    model: str,
    mark: Mark | None,
    *,
    limit: int,
    entries: int,
) -> list[Due]:
    """So many of the memories without current vectors as a caller may see and a filter lets through.

    What is to be made again has vectors until it is.
    """
    parts, params = narrowed(caller, which, now)
    params |= {"model": model, "after": 0, "limit": limit, "renewed": -1}
    if mark is None or not mark.whole:
        return _due(session, parts, params | {"after": mark.row if mark else 0})
    ids = changed(session, mark.seq, entries)
    return _due(session, [*parts, "memory.some"], params | {"ids": ids}) if ids else []


def _due(session: Session, parts: Sequence[Part], params: Mapping[str, Any]) -> list[Due]:
    return [Due(*row) for row in session.assembled(("embedding_due", *parts, "embedding_due.first"), params)]


def forget(session: Session, model: str) -> int:
    """Drop every vector of a model, and say how many there were."""
    row = session.row("embedding_kept", model=model)
    session.do("embedding_forget", model=model)
    return int(row[0]) if row else 0


def lacking(session: Session, model: str) -> tuple[int, int]:
    """How many memories are live, and how many of them have no current vectors."""
    ((live, without),) = session.rows("embedding_lacking", model=model)
    return live, without


def replies(session: Session, ids: Sequence[str]) -> dict[str, str]:
    """What those of some memories reply to that are said after somebody else."""
    return dict(session.rows("embedding_replies", ids=list(ids))) if ids else {}


def changed(session: Session, after: int, most: int) -> list[str]:
    """The memories that were changed behind a place in the journal, among so many of its entries."""
    return [record for record, _ in session.rows("memory_changed", after=after, upto=after + most)]
