"""Embedding vectors, their cosine similarity and signs. Vectors of two models are never compared."""

import sys
from collections.abc import Sequence
from math import hypot, isfinite
from operator import mul
from struct import Struct, pack
from typing import Any, NamedTuple

from holdfast.kernel.errors import Invalid

MAX_DIMENSIONS = 2000
"""The limit of a pgvector index."""
MAX_MODEL_CHARS = 128
MAX_WITHOUT_NUMPY = 1500
"""Vectors a process measures without numpy, which takes 0.1 seconds to load."""
WORD_BYTES = 8
"""The signs of a vector are padded to a multiple of this, so that they can be compared word by word."""
_HIGH_BITS = bytes(b"0"[0] if byte < 0x80 else b"1"[0] for byte in range(256))


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


def signs_of(vector: Any) -> bytes:
    """Return one bit per number, set if negative, padded to a multiple of a word."""
    bits = vector[3::4].translate(_HIGH_BITS)
    size = -(-len(bits) // (8 * WORD_BYTES)) * WORD_BYTES
    return int(bits, 2).to_bytes(size, "little") if bits else b""


def numpy_loaded() -> bool:
    return "numpy" in sys.modules


def cosines(vector: bytes, others: Sequence[bytes]) -> list[float]:
    """Return the cosine similarity of a vector with each other one."""
    if not others:
        return []
    if not numpy_loaded() and _plain_cosine.can_take(len(others)):
        return _plain_cosine.cosines(vector, others)
    import numpy  # 92 modules, 60 ms; few vectors need none of it

    kept = numpy.frombuffer(b"".join(others), "<f4").reshape(len(others), -1).astype("f8")
    found = kept @ numpy.frombuffer(vector, "<f4").astype("f8")
    return numpy.minimum(numpy.maximum(found, -1.0), 1.0).tolist()  # type: ignore[no-any-return]


class PlainCosine:
    """Cosine similarity in pure Python, for a limited number of vectors per process."""

    def __init__(self) -> None:
        self._left = MAX_WITHOUT_NUMPY

    def can_take(self, many: int) -> bool:
        self._left -= many
        return self._left >= 0

    def cosines(self, vector: bytes, others: Sequence[bytes]) -> list[float]:
        numbers = Struct(f"<{len(vector) // 4}f")
        asked = numbers.unpack(vector)
        return [max(-1.0, min(1.0, sum(map(mul, asked, numbers.unpack(other))))) for other in others]


_plain_cosine = PlainCosine()
