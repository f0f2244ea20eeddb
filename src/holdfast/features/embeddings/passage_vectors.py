"""Embeddings of passages. Local to this store; several models side by side, never mixed."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.kernel.journal.kinds import content_hash
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Clauses, Session, SqlPart
from holdfast.kernel.vector import Embedding, Vector, check_dimension

TITLE = -1
"""Start position that marks the embedding of the title."""
REPLY = -2
"""Start position that marks a reply embedded with the end of the previous message. It ranks, but never finds."""


WATERMARK_NAME = "vectors "
"""Name of a watermark in the table `meta`, before that of its model."""


class PassageEmbedding(NamedTuple):
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


class ModelCount(NamedTuple):
    """Number of embeddings of a model."""

    model: str
    dim: int
    memories: int
    passages: int
    stale: int


class DueMemory(NamedTuple):
    """A memory without current embeddings."""

    row: int
    id: str
    title: str
    content: str
    text_hash: str


class Watermark(msgspec.Struct, frozen=True):
    """Progress of embedding with a model: all rows up to `row`, and all changes up to journal entry `seq`."""

    row: int
    seq: int
    whole: bool = False
    """All rows have been read once; from now on, the journal shows what changed."""
    renewed: int = -1
    """Embeddings made up to this time are recomputed row by row; they are used until then."""


def get_dimension(session: Session, model: str) -> int | None:
    """Return the dimension of a model's embeddings; None if there are none."""
    row = session.row("embedding_dim", model=model)
    return int(row[0]) if row else None


def check_model_dimension(session: Session, embedding: Embedding) -> None:
    """Raise unless a vector has the dimension of its model."""
    check_dimension(embedding, get_dimension(session, embedding.model))


def put_embedding(session: Session, memory: Memory, embedding: Embedding, now: int) -> None:
    """Store one embedding for the whole current text of a memory, replacing those of the same model."""
    text_hash = content_hash(memory.title, memory.content)
    put_embeddings(
        session,
        [
            PassageEmbedding(
                memory.id,
                embedding.model,
                0,
                len(memory.content),
                embedding.vector.dim,
                text_hash,
                now,
                embedding.vector,
            )
        ],
    )


def put_embeddings(session: Session, embeddings: Sequence[PassageEmbedding]) -> None:
    """Store embeddings of memories, replacing those of the same model. All must have its dimension."""
    for model, vector in {(one.model, one.dim): (one.model, Vector(one.vector)) for one in embeddings}.values():
        check_model_dimension(session, Embedding(model, vector))
    owners = dict.fromkeys((one.memory, one.model) for one in embeddings)
    session.many("embedding_delete_of_model", ({"memory": memory, "model": model} for memory, model in owners))
    session.many("embedding_put", ({**one._asdict(), "vector": Vector(one.vector)} for one in embeddings))


def drop_embeddings(session: Session, memory: str) -> None:
    """Delete all embeddings of a memory."""
    session.do("embedding_delete", memory=memory)


def count_by_model(session: Session, memories: Clauses) -> list[ModelCount]:
    """Count the embeddings of some memories by model."""
    parts, params = memories
    rows = session.select(("embedding_count", *parts, "embedding_count.per_model"), params)
    return [ModelCount(*row) for row in rows]


MIN_CLOSE_COSINE = 0.85
"""Minimum cosine of two texts that say nearly the same."""


def find_close(
    session: Session, model: str, vectors: Sequence[Vector], memories: Clauses, *, limit: int
) -> list[list[str]]:
    """For each vector, find the memories with a very near passage, nearest first; lower id first among equals.

    For many texts at once. Clauses apply before the limit.
    """
    parts, params = memories[0], {**memories[1], "model": model}
    found = session.nearest_many(vectors, parts, params, limit)
    if found is None:
        found = [session.nearest(one, parts, params, limit) for one in vectors]
    return [[id for id, cosine in hits if cosine >= MIN_CLOSE_COSINE] for hits in found]


# Missing embeddings


def get_watermark(session: Session, model: str) -> Watermark | None:
    """Return the progress of a model; None if it was never used."""
    row = session.row("meta_get", name=WATERMARK_NAME + model)
    return None if row is None else msgspec.json.decode(row[0], type=Watermark)


def set_watermark(session: Session, model: str, to: Watermark) -> None:
    session.do("meta_put", name=WATERMARK_NAME + model, body=msgspec.json.encode(to).decode())


def list_due_after(session: Session, model: str, after: int, limit: int, *, renewed: int = -1) -> list[DueMemory]:
    """List the next memories, by row, without current embeddings made after `renewed`."""
    return _list_due(session, [], {"model": model, "after": after, "limit": limit, "renewed": renewed})


def filter_due(session: Session, model: str, ids: Sequence[str], *, renewed: int = -1) -> list[DueMemory]:
    """Return the memories, among some, without current embeddings made after `renewed`."""
    params = {"model": model, "after": 0, "ids": list(ids), "limit": len(ids), "renewed": renewed}
    return _list_due(session, ["memory.some"], params) if ids else []


def _list_due(session: Session, parts: Sequence[SqlPart], params: Mapping[str, Any]) -> list[DueMemory]:
    return [DueMemory(*row) for row in session.select(("embedding_due", *parts, "embedding_due.first"), params)]


def drop_model(session: Session, model: str) -> int:
    """Delete all embeddings of a model and return their number."""
    row = session.row("embedding_count_of_model", model=model)
    session.do("embedding_delete_model", model=model)
    return int(row[0]) if row else 0


def count_missing(session: Session, model: str) -> tuple[int, int]:
    """Return the number of live memories, and of those without current embeddings."""
    ((live, without),) = session.rows("embedding_count_missing", model=model)
    return live, without


def read_reply_targets(session: Session, ids: Sequence[str]) -> dict[str, str]:
    """Return the previous message of each memory that follows another speaker."""
    return dict(session.rows("embedding_reply_targets", ids=list(ids))) if ids else {}


def list_changed(session: Session, after: int, max_entries: int) -> list[str]:
    """List the memories changed within the next `max_entries` journal entries."""
    return [record for record, _ in session.rows("memory_changed", after=after, upto=after + max_entries)]
