"""Cosine similarity of vectors, without numpy for small numbers of vectors."""

import sys
from collections.abc import Sequence
from operator import mul
from struct import Struct

MAX_WITHOUT_NUMPY = 1500
"""Vectors a process measures without numpy, which takes 0.1 seconds to load."""


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
