"""Store embeddings and find the nearest, as the tests of the search do."""

from typing import Any

import numpy

from holdfast import Holdfast
from holdfast.features.embeddings import passage_vectors as vectors
from holdfast.features.memories.read_memories import EVERYTHING, Filter
from holdfast.features.recall import search_index
from holdfast.kernel.context import Caller
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.storage.postgres.engine import PostgresSession
from holdfast.kernel.vector import Embedding, Vector

ME = Caller("ai:tester@here")


def directions(seed: int, many: int, dim: int, clusters: int = 0) -> list[Vector]:
    """Return random vectors, optionally around some centres, like texts around topics."""
    random = numpy.random.default_rng(seed)
    numbers = random.standard_normal((many, dim))
    if clusters:
        numbers = 0.6 * numbers + random.standard_normal((clusters, dim))[random.integers(0, clusters, many)]
    numbers /= numpy.linalg.norm(numbers, axis=1, keepdims=True)
    return [Vector(row.tobytes()) for row in numbers.astype("<f4")]


def cosine(one: Vector, other: Vector) -> float:
    return float(numpy.frombuffer(one, "<f4").astype(float) @ numpy.frombuffer(other, "<f4").astype(float))


def put(hold: Holdfast, id: str, vector: Vector, model: str = "one") -> None:
    with hold.ctx.transaction() as write:
        memory = write.get(MEMORY, id)
        assert memory is not None
        vectors.put_embedding(write.session, memory, Embedding(model, vector), write.now)


def store_with_vector(hold: Holdfast, title: str, vector: Vector, model: str = "one", **more: Any) -> str:
    id = str(hold.store(title=title, content=f"about {title}", **more).id)
    put(hold, id, vector, model)
    return id


def near(
    hold: Holdfast, vector: Vector, which: Filter = EVERYTHING, *, model: str = "one", limit: int = 10, by: Caller = ME
) -> list[str]:
    with hold.ctx.reading() as session:
        found = search_index.find_nearest(session, by, Embedding(model, vector), which, hold.ctx.now(), limit=limit)
    return [id for id, _ in found]


def direct(session: Any, sql: str) -> list[Any]:
    cursor = session._connection.execute(sql)
    return list(cursor.fetchall()) if not isinstance(session, PostgresSession) or cursor.description else []
