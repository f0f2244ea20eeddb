"""Vectors as pgvector takes, gives and finds them."""

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
"""The dimensions that have an index."""
FEW = 1000
"""So many vectors are measured one by one in less time than an index is walked for those that pass a narrow filter."""
WIDE = frozenset({"memory.visible", "memory.live", "memory.kept"})
"""Clauses that usually leave most."""
BREADTH = 100
"""How many vectors a walk through an index keeps in view: more are slower and miss less."""
MOST_BREADTH = 1000
PASSAGES = 2
"""So many times as many passages as memories are asked for: a memory may have several."""


class VectorDumper(Dumper):
    """In binary, whose numbers are big-endian. The place where it stands says that it is a vector."""

    format = pq.Format.BINARY

    def dump(self, obj: Vector) -> Buffer:
        return pack(">HH", obj.dim, 0) + swapped(obj)


class VectorLoader(Loader):
    """From text, as the server writes it: enough digits for every bit."""

    def load(self, data: Buffer) -> Vector:
        numbers = [float(number) for number in bytes(data)[1:-1].split(b",")]
        return Vector(pack(f"<{len(numbers)}f", *numbers))


class WholeVectorLoader(Loader):
    """From binary, for whole tables of them: a tenth of the time."""

    format = pq.Format.BINARY

    def load(self, data: Buffer) -> Vector:
        return Vector(swapped(bytes(data)[4:]))


def swapped(numbers: bytes) -> bytes:
    """Numbers of four bytes in the other order."""
    turned = array("I", numbers)
    turned.byteswap()
    return turned.tobytes()


def nearest(
    session: Session, vector: Vector, parts: Sequence[Part], params: Mapping[str, Any], limit: int
) -> list[Row]:
    """By the index of the dimension; if there is none, the filters leave few or the index finds too few, one by one."""
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
    """Each memory once, by the nearest of its passages."""
    best: dict[str, Row] = {}
    for row in found:
        best.setdefault(row[0], row)
    return sorted(best.values(), key=lambda row: (-row[1], row[0]))


def _few(session: Session, parts: Sequence[Part], params: Mapping[str, Any]) -> bool:
    """Whether filters leave only a few."""
    if WIDE.issuperset(parts) or "memory.some" in parts:
        return "memory.some" in parts
    ((count,),) = session.assembled(("embedding_few", *parts, "embedding_few.end"), {**params, "most": FEW})
    return int(count) < FEW
