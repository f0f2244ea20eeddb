"""Vectors for very many memories in a short time: real ones of some texts, and others not far from them."""

from collections.abc import Sequence

import numpy

from holdfast.app import Holdfast
from holdfast.features.embeddings import store as vectors
from holdfast.features.embeddings.service import list_texts
from holdfast.features.embeddings.store import DueMemory, PassageEmbedding, Watermark
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.journal import journal
from holdfast.kernel.vector import Vector

SPREAD = 0.75
"""How far a vector is moved: its cosine with where it was is 0.8."""


class VectorCloud:
    """A source of vectors of length one, around those of some texts; the same for the same seed."""

    def __init__(self, embedder: Embedder, said: Sequence[str], seed: int = 1) -> None:
        self.model = embedder.model
        self._centres = numpy.array([numpy.frombuffer(vector, "<f4") for vector in embedder.embed(said)])
        self._random = numpy.random.default_rng(seed)

    def vectors(self, count: int) -> list[Vector]:
        """So many more."""
        centres = self._centres[self._random.integers(0, len(self._centres), count)]
        moved = self._random.standard_normal(centres.shape, "f4")
        found = centres + SPREAD * moved / numpy.linalg.norm(moved, axis=1, keepdims=True)
        found /= numpy.linalg.norm(found, axis=1, keepdims=True)
        return [Vector(one.tobytes()) for one in found.astype("<f4")]


def check_vector_search(hold: Holdfast, question: str) -> None:
    """Raise unless vectors take part: who finds by words alone is not measured."""
    found = hold.call("recall", {"context": question})
    if found.mode != "hybrid":
        raise RuntimeError(f"Vectors did not take part in a recall: {found.meta}")


def add_next_vectors(hold: Holdfast, cloud: VectorCloud, after: int, count: int) -> int | None:
    """Give the next memories vectors, as if they had been made of them: the row of the last, or None at the end."""
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
