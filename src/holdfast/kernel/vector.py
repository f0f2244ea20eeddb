"""Vectors: where a text lies in the space of some model. Those of two models are never compared."""

from collections.abc import Sequence
from math import hypot, isfinite
from struct import pack
from typing import NamedTuple

from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.validate import label

MOST_NUMBERS = 2000
"""As many as an index of pgvector takes."""
MOST_MODEL = 128


class Vector(bytes):
    """A direction: float32 numbers, little-endian, whose length together is one."""

    @property
    def dim(self) -> int:
        return len(self) // 4


class Embedding(NamedTuple):
    """A text's vector, and the model that made it."""

    model: str
    vector: Vector


def embedding(model: str, numbers: Sequence[float]) -> Embedding:
    """What a caller computed itself, or an error that names the field."""
    return Embedding(label("embedding.model", model, MOST_MODEL), unit(numbers))


def unit(numbers: Sequence[float]) -> Vector:
    """The direction of some numbers. At length one no engine's sums of squares overflow or vanish."""
    if not 1 <= len(numbers) <= MOST_NUMBERS:
        raise _invalid(f"1 to {MOST_NUMBERS} numbers, got {len(numbers)}")
    if not all(map(isfinite, numbers)):
        raise _invalid("every number must be finite")
    largest = max(map(abs, numbers))
    if not largest:
        raise _invalid("must not be all zero: it would point nowhere")
    scaled = [number / largest for number in numbers]
    length = hypot(*scaled)
    return Vector(pack(f"<{len(scaled)}f", *(number / length for number in scaled)))


def must_fit(given: Embedding, dim: int | None) -> None:
    """Raise unless a vector has as many numbers as those of its model that are known."""
    if dim not in (None, given.vector.dim):
        raise _invalid(f"the vectors of {given.model!r} here have {dim} numbers, got {given.vector.dim}")


def _invalid(what: str) -> Invalid:
    return Invalid(f"embedding.vector: {what}", fields=["embedding.vector"])
