"""Nearest-neighbour search: first by a binary index in memory (one bit per number), then exactly."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.kernel.storage.port import Row, Session, SqlPart
from holdfast.kernel.vector import Vector, cosines, numpy_loaded, signs_of

if TYPE_CHECKING:
    from holdfast.kernel.storage.sqlite.binary_index import LoadedIndex

MAX_FILTERED_ROWS = 20_000
"""Up to this many filtered memories, only their vectors are searched."""
PASSAGES_PER_MEMORY = 2
"""Passages to measure exactly per requested memory: the binary order is approximate, and a memory may have several."""
MIN_MEASURED = 120
"""Minimum number of vectors to measure exactly."""
MAX_MEASURED = 10 * MIN_MEASURED
"""Limit of nearly identical vectors to measure: filters may exclude many."""
NO_COSINE = -2.0
"""Lower than every cosine."""
MAX_WITHOUT_NUMPY = 30_000
"""Vectors a process scans without numpy: it may be the only search, or one of a few in a small store."""
WIDE_FILTERS = frozenset({"memory.visible", "memory.live", "memory.kept"})
"""Filters that usually leave most memories."""
_NUMBERS = msgspec.json.Decoder(list[int])


class BinaryIndex:
    """A store's binary index, which is loaded with numpy on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left_without_numpy = MAX_WITHOUT_NUMPY
        self._index: LoadedIndex | None = None

    def load(self) -> LoadedIndex:
        """Return the index; all threads share one."""
        from holdfast.kernel.storage.sqlite.binary_index import LoadedIndex  # loads numpy, 60 ms

        with self._lock:
            self._index = self._index or LoadedIndex()
            return self._index

    def can_search_without_numpy(self, session: Session) -> bool:
        """Whether the searches of this process are still so few and small that loading numpy would take longer."""
        if numpy_loaded():
            return False
        self._left_without_numpy -= session.rows("embedding_last")[0][0]
        return self._left_without_numpy >= 0


def find_nearest(
    session: Session,
    index: BinaryIndex,
    vector: Vector,
    parts: Sequence[SqlPart],
    params: Mapping[str, Any],
    limit: int,
) -> list[Row]:
    """Return rows of id and cosine of the nearest memories by their nearest passage, filtered before the limit."""
    if not session.rows("embedding_dim", model=params["model"]):
        return []
    search = Search(session, params["model"], signs_of(vector), _filtered_rows(session, parts, params))
    width = max(MIN_MEASURED, PASSAGES_PER_MEMORY * limit)
    best: dict[str, float] = {}
    for numbers in (
        search.scan_without_numpy(width) if index.can_search_without_numpy(session) else search.scan(index, width)
    ):
        found = _exact_cosines(session, vector, numbers, parts, params)
        search.remove_deleted(index, numbers, [number for number, _, _ in found])
        for _, id, cosine in found:
            if cosine > best.get(id, NO_COSINE):
                best[id] = cosine
        if len(best) >= limit:
            break
    return _sort_best(best)[:limit]


def find_close(
    session: Session,
    index: BinaryIndex,
    many: Sequence[Vector],
    parts: Sequence[SqlPart],
    params: Mapping[str, Any],
    limit: int,
) -> list[list[Row]] | None:
    """Like `find_nearest` for each vector, but only among those with nearly identical bits, narrowed word by word.

    Returns None if loading numpy would take longer than searching without it.
    """
    if not many or (not numpy_loaded() and session.rows("embedding_last")[0][0] <= MAX_WITHOUT_NUMPY):
        return None
    close = index.load().find_close(session, params["model"], [signs_of(vector) for vector in many])
    return [
        _nearest_among(session, vector, found, parts, params, limit) for vector, found in zip(many, close, strict=True)
    ]


def _nearest_among(
    session: Session,
    vector: Vector,
    numbers: list[int],
    parts: Sequence[SqlPart],
    params: Mapping[str, Any],
    limit: int,
) -> list[Row]:
    """Return the nearest memories among some numbers, measured in steps until there are enough."""
    best: dict[str, float] = {}
    for start in range(0, min(len(numbers), MAX_MEASURED), MIN_MEASURED):
        for _, id, cosine in _exact_cosines(session, vector, numbers[start : start + MIN_MEASURED], parts, params):
            best[id] = max(cosine, best.get(id, NO_COSINE))
        if len(best) >= limit:
            break
    return _sort_best(best)[:limit]


def _sort_best(best: Mapping[str, float]) -> list[Row]:
    return [(id, -cosine) for cosine, id in sorted((-cosine, id) for id, cosine in best.items())]


class Search(NamedTuple):
    """A search that yields numbers of vectors in steps, most common bits first."""

    session: Session
    model: str
    query: bytes
    rows: list[int] | None
    """Rows to search; None: all."""

    def scan(self, index: BinaryIndex, width: int) -> Iterator[list[int]]:
        """Search the binary index in memory."""
        return index.load().scan(self.session, self.model, self.query, self.rows, width)

    def scan_without_numpy(self, width: int) -> Iterator[list[int]]:
        """Search without numpy, directly in the tables."""
        asked, among = int.from_bytes(self.query, "little"), None if self.rows is None else set(self.rows)
        ((last,),) = self.session.rows("embedding_last")
        order = sorted(
            ((int.from_bytes(signs, "little") ^ asked).bit_count(), number)
            for number, row, signs in self.session.rows(
                "binary_index_page", model=self.model, size=len(self.query), after=0, last=last, limit=last
            )
            if among is None or row in among
        )
        numbers, start = [number for _, number in order], 0
        while start < len(numbers):
            yield numbers[start : start + (start or width)]
            start += start or width

    def remove_deleted(self, index: BinaryIndex, numbers: Sequence[int], found: Sequence[int]) -> None:
        """Remove deleted vectors from the index, if many results were missing."""
        missing = set(numbers).difference(found)
        if len(missing) > len(numbers) // 2:
            there = {number for (number,) in self.session.rows("binary_index_numbers", numbers=list(missing))}
            ((last,),) = self.session.rows("embedding_last")
            index.load().remove(
                self.model, len(self.query), [number for number in missing - there if number <= (last or 0)]
            )


def _filtered_rows(session: Session, parts: Sequence[SqlPart], params: Mapping[str, Any]) -> list[int] | None:
    """Return the rows that a narrow filter leaves; None if there are too many."""
    if WIDE_FILTERS.issuperset(parts):
        return None
    ((found,),) = session.select(("memory_rows", *parts, "memory_rows.end"), {**params, "limit": MAX_FILTERED_ROWS + 1})
    rows = _NUMBERS.decode(found)
    return None if len(rows) > MAX_FILTERED_ROWS else rows


def _exact_cosines(
    session: Session, vector: Vector, numbers: list[int], parts: Sequence[SqlPart], params: Mapping[str, Any]
) -> list[tuple[int, str, float]]:
    """Return numbers, ids and cosines of current vectors that pass the filters."""
    rows = session.select(("embedding_nearest", *parts), {**params, "numbers": numbers})
    return [
        (number, id, cosine)
        for (number, id, _), cosine in zip(rows, cosines(vector, [row[2] for row in rows]), strict=True)
    ]
