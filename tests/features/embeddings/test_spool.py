"""Spooled embeddings come back unchanged, from memory or from a file."""

import resource

import pytest

from holdfast.features.embeddings.spool import MAX_IN_MEMORY, EmbeddingSpool
from holdfast.kernel.vector import Vector, unit_vector


def test_a_spool_returns_embeddings_unchanged_when_they_exceed_memory() -> None:
    vectors = [unit_vector([float(number + 1), 1.0, *[0.5] * 382]) for number in range(MAX_IN_MEMORY // 1536 + 50)]
    with EmbeddingSpool() as spool:
        for number, vector in enumerate(vectors):
            spool[number] = [(-1, -1, vector), (0, number, vector)]
        found = [spool.get(number) for number in reversed(range(len(vectors)))]
        assert spool.get(len(vectors)) == []
    assert found == [[(-1, -1, one), (0, number, one)] for number, one in reversed(list(enumerate(vectors)))]
    assert all(isinstance(one, Vector) for made in found for *_, one in made)


def fill(spool: EmbeddingSpool) -> None:
    for number in range(2 * MAX_IN_MEMORY // 1536):
        spool[number] = [(0, 9, unit_vector([1.0] * 384))]


@pytest.mark.parametrize("room", [MAX_IN_MEMORY // 2, MAX_IN_MEMORY + 100_000], ids=["at once", "later"])
def test_a_spool_on_a_full_disk_returns_nothing_truncated(room: int) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with EmbeddingSpool() as spool:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                fill(spool)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert spool.get(0) == []
