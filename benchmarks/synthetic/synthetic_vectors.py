"""Fast synthetic vectors for many memories: real ones of some texts, and others near them."""

from collections.abc import Sequence

import numpy

from holdfast.app import Holdfast
from holdfast.features.embeddings import passage_vectors as vectors
from holdfast.features.embeddings.passage_vectors import DueMemory, PassageEmbedding, Watermark
from holdfast.features.embeddings.service import list_texts
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.journal import journal
from holdfast.kernel.vector import Vector

SPREAD = 0.75
"""How far a vector is moved; its cosine with the original is 0.8."""


class VectorCloud:
    """Generates unit vectors near those of some texts, deterministic by seed."""

    def __init__(self, embedder: Embedder, said: Sequence[str], seed: int = 1) -> None:
        self.model = embedder.model
        self._centres = numpy.array([numpy.frombuffer(vector, "<f4") for vector in embedder.embed(said)])
        self._random = numpy.random.default_rng(seed)

    def vectors(self, count: int) -> list[Vector]:
        """Return the next `count` vectors."""
        centres = self._centres[self._random.integers(0, len(self._centres), count)]
        moved = self._random.standard_normal(centres.shape, "f4")
        found = centres + SPREAD * moved / numpy.linalg.norm(moved, axis=1, keepdims=True)
        found /= numpy.linalg.norm(found, axis=1, keepdims=True)
        return [Vector(one.tobytes()) for one in found.astype("<f4")]


def check_vector_search(hold: Holdfast, question: str) -> None:
    """Raise unless recall uses vectors."""
    found = hold.call("recall", {"context": question})
    if found.mode != "hybrid":
        raise RuntimeError(f"Vectors did not take part in a recall: {found.meta}")


def add_next_vectors(hold: Holdfast, cloud: VectorCloud, after: int, count: int) -> int | None:
    """Add vectors to the next memories; return the last row number, or None at the end."""
    with hold.ctx.transaction() as write:
        due = vectors.list_due_after(write.session, cloud.model, after, count)
        if not due:
            vectors.set_watermark(
                write.session, cloud.model, Watermark(after, journal.get_head(write.session).seq, whole=True)
            )
            return None
        vectors.put_embeddings(write.session, _to_embeddings(due, cloud))
        return due[-1].row


def _to_embeddings(due: Sequence[DueMemory], cloud: VectorCloud) -> list[PassageEmbedding]:
    spans = [(one, begins, ends) for one in due for begins, ends, _ in list_texts(one.title, one.content)]
    return [
        PassageEmbedding(one.id, cloud.model, begins, ends, vector.dim, one.text_hash, 0, vector)
        for (one, begins, ends), vector in zip(spans, cloud.vectors(len(spans)), strict=True)
    ]
