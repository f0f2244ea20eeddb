"""Vectors that wait come back as they were, from memory or from a file."""

from holdfast.domain.vector import Vector, unit
from holdfast.services.spool import IN_MEMORY, Spool


def test_vectors_come_back_as_they_were_once_they_are_too_many_for_memory() -> None:
    vectors = [unit([float(number + 1), 1.0, *[0.5] * 382]) for number in range(IN_MEMORY // 1536 + 50)]
    with Spool() as spool:
        for number, vector in enumerate(vectors):
            spool[number] = [(-1, -1, vector), (0, number, vector)]
        found = [spool.get(number) for number in reversed(range(len(vectors)))]
        assert spool.get(len(vectors)) == []
    assert found == [[(-1, -1, one), (0, number, one)] for number, one in reversed(list(enumerate(vectors)))]
    assert all(isinstance(one, Vector) for made in found for *_, one in made)
