"""Read the stored embeddings of a store."""

from holdfast.features.embeddings.passage_vectors import PassageEmbedding
from holdfast.kernel.storage.port import Session
from holdfast.kernel.vector import Vector


def read_embeddings(session: Session, limit: int = 100) -> list[PassageEmbedding]:
    """Return all embeddings in key order, those of deleted memories included."""
    rows = session.query_sql(
        f"select {', '.join(PassageEmbedding._fields)} from embedding order by memory, model, begins limit :limit",
        {"limit": limit},
    )
    return [PassageEmbedding(*row)._replace(vector=Vector(row[-1])) for row in rows]
