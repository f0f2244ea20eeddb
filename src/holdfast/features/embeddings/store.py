"""Embeddings of passages. Local to this store; several models side by side, never mixed."""

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
"""Start position that marks the embedding of the title."""
REPLY = -2
"""Start position that marks a reply embedded with the end of the previous message. It ranks, but never finds."""


class Kept(NamedTuple):
    """A stored embedding of a passage."""

    memory: str
    model: str
    begins: int
    ends: int
    dim: int
    text_hash: str
    """Hash of the embedded text; if the memory has another one now, the embedding is stale."""
    made_at: int
    vector: Vector


class Count(NamedTuple):
    """Number of embeddings of a model."""

    model: str
    dim: int
    memories: int
    kept: int
    stale: int


Near = dict[tuple[int, int], float]
"""Cosine of each passage of a memory with the query, by start and end."""


Known = dict[str, list[Row]]
"""Stored embeddings by memory, one row per passage."""
NONE: Known = {}


class Due(NamedTuple):
    """A memory without current embeddings."""

    row: int
    id: str
    title: str
    content: str
    text_hash: str


class Mark(msgspec.Struct, frozen=True):
    """Progress of embedding with a model: all rows up to `row`, and all changes up to journal entry `seq`."""

    row: int
    seq: int
    whole: bool = False
    """All rows have been read once; from now on, the journal shows what changed."""
    renewed: int = -1
    """Embeddings made up to this time are recomputed row by row; they are used until then."""


def dim_of(session: Session, model: str) -> int | None:
    """Return the dimension of a model's embeddings; None if there are none."""
    row = session.row("embedding_dim", model=model)
    return int(row[0]) if row else None


def check(session: Session, given: Embedding) -> None:
    """Raise unless a vector has the dimension of its model."""
    must_fit(given, dim_of(session, given.model))


def put(session: Session, memory: Memory, given: Embedding, now: int) -> None:
    """Store one embedding for the whole current text of a memory, replacing those of the same model."""
    text_hash = content_hash(memory.title, memory.content)
    put_all(
        session, [Kept(memory.id, given.model, 0, len(memory.content), given.vector.dim, text_hash, now, given.vector)]
    )


def put_all(session: Session, many: Sequence[Kept]) -> None:
    """Store embeddings of memories, replacing those of the same model. All must have its dimension."""
    for model, vector in {(one.model, one.dim): (one.model, Vector(one.vector)) for one in many}.values():
        check(session, Embedding(model, vector))
    owners = dict.fromkeys((one.memory, one.model) for one in many)
    session.many("embedding_clear", ({"memory": memory, "model": model} for memory, model in owners))
    session.many("embedding_put", ({**one._asdict(), "vector": Vector(one.vector)} for one in many))


def drop(session: Session, memory: str) -> None:
    """Delete all embeddings of a memory."""
    session.do("embedding_drop", memory=memory)


def counts(session: Session, caller: Caller, now: int) -> list[Count]:
    """Count the embeddings of each model that a caller may see."""
    parts, params = narrowed(caller, EVERYTHING, now)
    rows = session.assembled(("embedding_count", *parts, "embedding_count.per_model"), params)
    return [Count(*row) for row in rows]


def nearest(
    session: Session, caller: Caller, asked: Embedding, which: Filter, now: int, *, limit: int
) -> list[tuple[str, float]]:
    """Find the memories with the nearest passages by cosine; lower id first among equals.

    Filters apply before the limit. Embeddings of outdated text do not count.
    """
    parts, params = narrowed(caller, which, now)
    rows = session.nearest(asked.vector, parts, params | {"model": asked.model}, limit)
    return [(id, cosine) for id, cosine in rows]


CLOSE = 0.85
"""Minimum cosine of two texts that say nearly the same."""


def close(
    session: Session, caller: Caller, model: str, many: Sequence[Vector], which: Filter, now: int, *, limit: int
) -> list[list[str]]:
    """For each vector, find the memories with a very near passage, nearest first; lower id first among equals.

    For many texts at once. Filters apply before the limit.
    """
    parts, params = narrowed(caller, which, now)
    params |= {"model": model}
    found = session.close(many, parts, params, limit)
    if found is None:
        found = [session.nearest(one, parts, params, limit) for one in many]
    return [[id for id, cosine in hits if cosine >= CLOSE] for hits in found]


def kept(session: Session, ids: Iterable[str], model: str) -> Known:
    """Read the stored embeddings of some memories, for `nearness`."""
    found: Known = {id: [] for id in ids}
    for row in session.vectors(list(found), model) if found else ():
        found[row[0]].append(row)
    return found


def nearness(session: Session, asked: Embedding, said: Mapping[str, str], known: Known = NONE) -> dict[str, Near]:
    """Compute the cosine of each passage of some memories. `said` are their text hashes; other embeddings do not count.

    `known` are embeddings that were read already.
    """
    read = known | kept(session, said.keys() - known.keys(), asked.model)
    rows = [row for id in sorted(said) for row in read[id] if row[4] == said[id]]
    found: dict[str, Near] = {}
    for row, cosine in zip(rows, cosines(asked.vector, [row[3] for row in rows]), strict=True):
        found.setdefault(row[0], {})[row[1], row[2]] = cosine
    return found


# Missing embeddings


def mark(session: Session, model: str) -> Mark | None:
    """Return the progress of a model; None if it was never used."""
    row = session.row("kept_get", name=f"vectors {model}")
    return None if row is None else msgspec.json.decode(row[0], type=Mark)


def set_mark(session: Session, model: str, to: Mark) -> None:
    session.do("kept_put", name=f"vectors {model}", body=msgspec.json.encode(to).decode())


def due_rows(session: Session, model: str, after: int, limit: int, *, renewed: int = -1) -> list[Due]:
    """List the next memories, by row, without current embeddings made after `renewed`."""
    return _due(session, [], {"model": model, "after": after, "limit": limit, "renewed": renewed})


def due_among(session: Session, model: str, ids: Sequence[str], *, renewed: int = -1) -> list[Due]:
    """Return the memories, among some, without current embeddings made after `renewed`."""
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
    """List memories without current embeddings that a caller may see and that pass a filter.

    Memories that are only to be recomputed still have embeddings and are not listed.
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
    """Delete all embeddings of a model and return their number."""
    row = session.row("embedding_kept", model=model)
    session.do("embedding_forget", model=model)
    return int(row[0]) if row else 0


def lacking(session: Session, model: str) -> tuple[int, int]:
    """Return the number of live memories, and of those without current embeddings."""
    ((live, without),) = session.rows("embedding_lacking", model=model)
    return live, without


def replies(session: Session, ids: Sequence[str]) -> dict[str, str]:
    """Return the previous message of each memory that follows another speaker."""
    return dict(session.rows("embedding_replies", ids=list(ids))) if ids else {}


def changed(session: Session, after: int, most: int) -> list[str]:
    """List the memories changed within the next `most` journal entries."""
    return [record for record, _ in session.rows("memory_changed", after=after, upto=after + most)]
