"""Vectors in pgvector: encoding and nearest-neighbour search."""

from array import array
from collections.abc import Mapping, Sequence
from struct import pack
from typing import Any

from psycopg import pq
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader

from holdfast.kernel.storage.port import Row, Session, SqlPart
from holdfast.kernel.vector import Vector

INDEXED = (384, 512, 768, 1024, 1536)
"""Dimensions with an index."""
MAX_EXACT = 1000
"""Up to this many filtered vectors, an exact scan is faster than the index."""
WIDE_FILTERS = frozenset({"memory.visible", "memory.live", "memory.kept"})
"""Filters that usually leave most memories."""
MIN_EF_SEARCH = 100
"""Minimum of hnsw.ef_search: higher is slower and more exact."""
MAX_EF_SEARCH = 1000
PASSAGES_PER_MEMORY = 2
"""Passages to fetch per requested memory, which may have several."""


class VectorDumper(Dumper):
    """Dumps to binary, which is big-endian. The context of the parameter determines its type."""

    format = pq.Format.BINARY

    def dump(self, obj: Vector) -> Buffer:
        return pack(">HH", obj.dim, 0) + swap_bytes(obj)


class VectorLoader(Loader):
    """Loads from text, which is exact."""

    def load(self, data: Buffer) -> Vector:
        numbers = [float(number) for number in bytes(data)[1:-1].split(b",")]
        return Vector(pack(f"<{len(numbers)}f", *numbers))


class WholeVectorLoader(Loader):
    """Loads from binary, ten times faster, for whole tables."""

    format = pq.Format.BINARY

    def load(self, data: Buffer) -> Vector:
        return Vector(swap_bytes(bytes(data)[4:]))


def swap_bytes(numbers: bytes) -> bytes:
    """Swap the byte order of four-byte numbers."""
    turned = array("I", numbers)
    turned.byteswap()
    return turned.tobytes()


def find_nearest(
    session: Session, vector: Vector, parts: Sequence[SqlPart], params: Mapping[str, Any], limit: int
) -> list[Row]:
    """Find the nearest memories by the dimension's index; by an exact scan without one, or if filters leave few."""
    asked = {**params, "vector": vector, "limit": PASSAGES_PER_MEMORY * limit}
    if vector.dim in INDEXED and not _is_narrow(session, parts, params):
        session.rows(
            "embedding_tune_index", breadth=min(max(MIN_EF_SEARCH, PASSAGES_PER_MEMORY * limit), MAX_EF_SEARCH)
        )
        found = session.select(("embedding_nearest", *parts, f"embedding_nearest.by_{vector.dim}"), asked)
        if len(best := _best_per_memory(found)) >= limit:
            return best[:limit]
    while True:
        found = session.select(("embedding_nearest", *parts, "embedding_nearest.exact"), asked)
        best = _best_per_memory(found)
        if len(best) >= limit or len(found) < asked["limit"]:
            return best[:limit]
        asked["limit"] *= 8


def _best_per_memory(found: list[Row]) -> list[Row]:
    """Reduce passages to memories, each with its nearest passage."""
    best: dict[str, Row] = {}
    for row in found:
        best.setdefault(row[0], row)
    return sorted(best.values(), key=lambda row: (-row[1], row[0]))


def _is_narrow(session: Session, parts: Sequence[SqlPart], params: Mapping[str, Any]) -> bool:
    """Whether the filters leave only a few vectors."""
    if WIDE_FILTERS.issuperset(parts) or "memory.some" in parts:
        return "memory.some" in parts
    ((count,),) = session.select(
        ("embedding_count_filtered", *parts, "embedding_count_filtered.end"), {**params, "most": MAX_EXACT}
    )
    return int(count) < MAX_EXACT
