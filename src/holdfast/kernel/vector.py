"""Embedding vectors. Vectors of two models are never compared."""

from collections.abc import Sequence
from math import hypot, isfinite
from struct import pack
from typing import NamedTuple

from holdfast.kernel.errors import Invalid

MAX_DIMENSIONS = 2000
"""The limit of a pgvector index."""
MAX_MODEL_CHARS = 128


class Vector(bytes):
    """A unit vector: little-endian float32 numbers."""

    @property
    def dim(self) -> int:
        return len(self) // 4


class Embedding(NamedTuple):
    """A text's vector and its model."""

    model: str
    vector: Vector


def unit_vector(numbers: Sequence[float]) -> Vector:
    """Normalize numbers to length one, so that no engine's sums of squares overflow or underflow."""
    if not 1 <= len(numbers) <= MAX_DIMENSIONS:
        raise _invalid(f"1 to {MAX_DIMENSIONS} numbers, got {len(numbers)}")
    if not all(map(isfinite, numbers)):
        raise _invalid("every number must be finite")
    largest = max(map(abs, numbers))
    if not largest:
        raise _invalid("must not be all zeros")
    scaled = [number / largest for number in numbers]
    length = hypot(*scaled)
    return Vector(pack(f"<{len(scaled)}f", *(number / length for number in scaled)))


def check_dimension(given: Embedding, dim: int | None) -> None:
    """Raise Invalid unless a vector has the dimension of its model's stored vectors."""
    if dim not in (None, given.vector.dim):
        raise _invalid(f"vectors of {given.model!r} in this store have {dim} numbers, got {given.vector.dim}")


def _invalid(what: str) -> Invalid:
    return Invalid(f"embedding.vector: {what}", fields=["embedding.vector"])
