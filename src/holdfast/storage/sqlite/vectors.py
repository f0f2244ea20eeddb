"""The nearest of many vectors, by looking at each."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice

from ..port import Row

BATCH = 1024


def nearest(rows: Iterable[Row], vector: bytes, limit: int) -> list[Row]:
    """Rows whose second column is a vector, with the cosine in its place: the nearest, of equals the first by id."""
    best: list[Row] = []
    for measured in _measured(rows, vector):
        best = nsmallest(limit, (*best, *measured), key=lambda row: (-row[1], row[0]))
    return best


def _measured(rows: Iterable[Row], vector: bytes) -> Iterator[Sequence[Row]]:
    """A batch at a time, so that a large store does not have to fit into memory."""
    waiting = iter(rows)
    batch = list(islice(waiting, BATCH))
    if not batch:
        return
    import numpy  # takes up to two tenths of a second, which only a search by vectors is worth

    asked = numpy.frombuffer(vector, "<f4")
    while batch:
        kept = numpy.frombuffer(b"".join(row[1] for row in batch), "<f4").reshape(len(batch), len(asked))
        cosines = numpy.clip(kept @ asked, -1.0, 1.0).tolist()
        yield [(row[0], cosine, *row[2:]) for row, cosine in zip(batch, cosines, strict=True)]
        batch = list(islice(waiting, BATCH))
