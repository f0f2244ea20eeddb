"""Vectors in pgvector: encoding and nearest-neighbour search."""

from array import array
from collections.abc import Mapping, Sequence
from struct import pack
from typing import Any

from psycopg import pq
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader

from holdfast.kernel.storage.port import Part, Row, Session
from holdfast.kernel.vector import Vector

INDEXED = (384, 512, 768, 1024, 1536)
"""Dimensions with an index."""
FEW = 1000
"""Up to this many filtered vectors, an exact scan is faster than the index."""
WIDE = frozenset({"memory.visible", "memory.live", "memory.kept"})
"""Filters that usually leave most memories."""
BREADTH = 100
"""Minimum of hnsw.ef_search: higher is slower and more exact."""
MOST_BREADTH = 1000
PASSAGES = 2
"""Passages to fetch per requested memory, which may have several."""


class VectorDumper(Dumper):
    """Dumps to binary, which is big-endian. The context of the parameter determines its type."""

    format = pq.Format.BINARY

    def dump(self, obj: Vector) -> Buffer:
        return pack(">HH", obj.dim, 0) + swapped(obj)


class VectorLoader(Loader):
    """Loads from text, which is exact."""

    def load(self, data: Buffer) -> Vector:
        numbers = [float(number) for number in bytes(data)[1:-1].split(b",")]
        return Vector(pack(f"<{len(numbers)}f", *numbers))


class WholeVectorLoader(Loader):
    """Loads from binary, ten times faster, for whole tables."""

    format = pq.Format.BINARY

    def load(self, data: Buffer) -> Vector:
        return Vector(swapped(bytes(data)[4:]))


def swapped(numbers: bytes) -> bytes:
    """Swap the byte order of four-byte numbers."""
    turned = array("I", numbers)
    turned.byteswap()
    return turned.tobytes()


def nearest(
    session: Session, vector: Vector, parts: Sequence[Part], params: Mapping[str, Any], limit: int
) -> list[Row]:
    """Find the nearest memories by the dimension's index; by an exact scan without one, or if filters leave few."""
    asked = {**params, "vector": vector, "limit": PASSAGES * limit}
    if vector.dim in INDEXED and not _few(session, parts, params):
        session.rows("embedding_tuned", breadth=min(max(BREADTH, PASSAGES * limit), MOST_BREADTH))
        found = session.assembled(("embedding_found", *parts, f"embedding_found.by_{vector.dim}"), asked)
        if len(best := _by_memory(found)) >= limit:
            return best[:limit]
    while True:
        found = session.assembled(("embedding_found", *parts, "embedding_found.exact"), asked)
        best = _by_memory(found)
        if len(best) >= limit or len(found) < asked["limit"]:
            return best[:limit]
        asked["limit"] *= 8


def _by_memory(found: list[Row]) -> list[Row]:
    """Reduce passages to memories, each with its nearest passage."""
    best: dict[str, Row] = {}
    for row in found:
        best.setdefault(row[0], row)
    return sorted(best.values(), key=lambda row: (-row[1], row[0]))


def _few(session: Session, parts: Sequence[Part], params: Mapping[str, Any]) -> bool:
    """Whether the filters leave only a few vectors."""
    if WIDE.issuperset(parts) or "memory.some" in parts:
        return "memory.some" in parts
    ((count,),) = session.assembled(("embedding_few", *parts, "embedding_few.end"), {**params, "most": FEW})
    return int(count) < FEW
