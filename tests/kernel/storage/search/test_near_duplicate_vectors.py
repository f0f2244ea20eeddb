"""Very near vectors are found among many by their first bits, without misses."""

import random
from typing import Any

import pytest

from holdfast.features.embeddings import passage_vectors as vectors
from holdfast.features.memories.read_memories import Filter, filter_clauses
from holdfast.kernel.vector import Vector, unit_vector

MODEL = "own"
DIM = 384


def move_vector(vector: list[float], by: float, chance: random.Random) -> list[float]:
    """Move a vector; the cosine is then about sqrt(1 - by ** 2)."""
    aside = [chance.gauss(0, 1) for _ in vector]
    length = sum(number * number for number in aside) ** 0.5
    base = sum(number * number for number in vector) ** 0.5
    return [
        number / base * (1 - by * by) ** 0.5 + by * other / length for number, other in zip(vector, aside, strict=True)
    ]


@pytest.fixture
def stored_vectors(hold: Any) -> list[tuple[str, list[float]]]:
    """Store forty memories with random vectors."""
    chance = random.Random(4)
    found = []
    for number in range(40):
        vector = [chance.gauss(0, 1) for _ in range(DIM)]
        id = hold.store(
            title=f"Note {number}",
            content=f"This is what note number {number} has to say.",
            namespace=f"n/{number % 2}",
            embedding={"model": MODEL, "vector": vector},
        ).id
        found.append((id, vector))
    return found


def close(ctx: Any, *many: Vector, which: Filter | None = None) -> list[list[str]]:
    with ctx.ctx.reading() as session:
        caller, now = ctx.ctx.caller, ctx.ctx.now()
        return vectors.find_close(session, MODEL, many, filter_clauses(caller, which or Filter(), now), limit=5)


def test_very_close_embeddings_are_found_and_few_others(
    hold: Any, stored_vectors: list[tuple[str, list[float]]]
) -> None:
    import numpy  # noqa: F401 - what is loaded is used; without it the nearest are asked for

    chance = random.Random(5)
    near = [unit_vector(move_vector(vector, 0.3, chance)) for _, vector in stored_vectors]
    far = unit_vector([chance.gauss(0, 1) for _ in range(DIM)])
    assert close(hold, *near, far) == [*([id] for id, _ in stored_vectors), []]


def test_filters_and_visibility_apply(hold: Any, stored_vectors: list[tuple[str, list[float]]]) -> None:
    id, vector = stored_vectors[0]
    assert close(hold, unit_vector(vector), which=Filter(namespace="n/0")) == [[id]]
    assert close(hold, unit_vector(vector), which=Filter(namespace="n/1")) == [[]]
    hold.delete(id)
    assert close(hold, unit_vector(vector)) == [[]]


def test_the_closest_of_many_embeddings_are_found_whatever_was_stored_before(hold: Any) -> None:
    import numpy  # noqa: F401 - as above

    chance = random.Random(6)
    asked = [chance.gauss(0, 1) for _ in range(DIM)]
    ids = [
        hold.store(
            title=f"Note {number}",
            content=f"This is what note number {number} has to say.",
            namespace="later" if number > 19 else "earlier",
            embedding={"model": MODEL, "vector": move_vector(asked, 0.4 - number / 100, random.Random(7))},
        ).id
        for number in range(30)
    ]
    assert close(hold, unit_vector(asked)) == [ids[:24:-1]]
    assert close(hold, unit_vector(asked), which=Filter(namespace="later")) == [ids[:24:-1]]
    assert close(hold, unit_vector(asked), which=Filter(namespace="earlier")) == [ids[19:14:-1]]
