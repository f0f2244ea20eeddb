"""The nearest of many vectors: first by the signs of their numbers, which fit into memory, then exactly."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.kernel.cosine import cosines, numpy_loaded
from holdfast.kernel.storage.port import Part, Row, Session
from holdfast.kernel.vector import Vector

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray


_HIGH_BITS = bytes(b"0"[0] if byte < 0x80 else b"1"[0] for byte in range(256))
WORD = 8
"""Bytes that are compared at once."""
TOGETHER = 3
"""So many words differ in no more signs than a byte can count."""
FEW = 20_000
"""So many memories that a filter leaves are named one by one, and only their vectors looked at."""
BREADTH = 2
"""So many times as many passages as memories are asked for are measured exactly: their order by signs is not exact, and
a memory may have several."""
LEAST = 120
"""So many are measured however few are asked for."""
MOST_ALIKE = 10 * LEAST
"""So many of those that are nearly alike: the filters may leave none of very many."""
NOTHING_NEAR = -2.0
"""Less than every cosine."""
SLIGHT = 30_000
"""Among so many numbers a process searches once without numpy: it may never search again."""
PAGE = 50_000
"""Signs that are read together."""
BLOCK = 1024
"""Signs that are packed into one value, as the migration has it."""
BLOCKS = 64
"""Packed values that are read together."""
DIFFERS = 0.177
"""Such a part of the signs differs of two vectors with a cosine of 0.85."""
PIECE = 16_384
WIDE = frozenset({"memory.visible", "memory.live", "memory.kept"})
"""Clauses that usually leave most."""


def signs_of(vector: Any) -> bytes:
    """A bit for every number, whether it is below zero; as many bytes as are compared at once, or a multiple."""
    bits = vector[3::4].translate(_HIGH_BITS)
    size = -(-len(bits) // (8 * WORD)) * WORD
    return int(bits, 2).to_bytes(size, "little") if bits else b""


def packed(rows: Sequence[tuple[int, int, bytes]]) -> bytes:
    """The numbers, the rows and the signs of a block in one value."""
    ordered = sorted(rows)
    numbers = [*(number for number, _, _ in ordered), *(row for _, row, _ in ordered)]
    return struct.pack(f"<{len(numbers)}q", *numbers) + b"".join(signs for _, _, signs in ordered)


class Some(NamedTuple):
    """Signs that were read together, a row for each."""

    numbers: NDArray[numpy.int64]
    rows: NDArray[numpy.int64]
    signs: NDArray[numpy.uint64]


class Table(NamedTuple):
    """The signs of one model's vectors, a column for each word of them."""

    numbers: NDArray[numpy.int64]
    rows: NDArray[numpy.int64]
    words: NDArray[numpy.uint64]
    used: int
    """So many places are taken; the others are for what comes."""


class Signs:
    """The signs of a store's vectors as this process has read them. What was added since is read before each search."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = False
        self._origin = ""
        self._tables: dict[tuple[str, int], Table] = {}
        self._read: dict[tuple[str, int], int] = {}
        """Up to which number each table was looked for: the last may be another model's."""

    def current(self, session: Session, model: str, size: int) -> Table:
        """All that the session sees of a model, and perhaps some that came later or are gone."""
        ((origin,),) = session.rows("chain_origin")
        ((last,),) = session.rows("embedding_last")
        with self._lock:
            if origin != self._origin:
                self._origin, self._tables, self._read = origin, {}, {}
            table = self._tables.get((model, size)) or _empty(size)
            after = self._read.get((model, size), 0)
            if last > after:
                for some in _added(session, model, size, after, last):
                    table = _grown(table, some)
                self._tables[model, size], self._read[model, size] = table, last
            return table

    def begin(self, session: Session) -> bool:
        """Whether this is the first search, and among so few that to load numpy would take longer than all of it."""
        first, self._begun = not self._begun, True
        return first and not numpy_loaded() and session.rows("embedding_last")[0][0] <= SLIGHT

    def forget(self, model: str, size: int, gone: Sequence[int]) -> None:
        """Leave out numbers that are not in the store any more."""
        import numpy

        with self._lock:
            table = self._tables.get((model, size))
            if table is None or not gone:
                return
            kept = ~numpy.isin(table.numbers[: table.used], gone)
            self._tables[model, size] = Table(
                table.numbers[: table.used][kept],
                table.rows[: table.used][kept],
                numpy.ascontiguousarray(table.words[:, : table.used][:, kept]),
                int(kept.sum()),
            )


def _added(session: Session, model: str, size: int, after: int, last: int) -> Iterator[Some]:
    """What was added behind a number, in order: packed as far as it is, and by rows what lies between."""
    import numpy

    gone = numpy.array([number for (number,) in session.rows("embedding_gone", after=after)], numpy.int64)
    first = -(-after // BLOCK)
    while page := session.rows("embedding_packs", model=model, size=size, block=first, limit=BLOCKS):
        for block, value in page:
            yield from _read(session, model, size, after, block * BLOCK)
            yield _unpacked(value, size, gone)
            after = (block + 1) * BLOCK
        first = page[-1][0] + 1
    yield from _read(session, model, size, after, last)


def _read(session: Session, model: str, size: int, after: int, last: int) -> Iterator[Some]:
    import numpy

    for page in _pages(session, model, size, after, last):
        signs = numpy.frombuffer(b"".join(row[2] for row in page), "<u8").reshape(len(page), -1)
        numbers, rows = zip(*((number, row) for number, row, _ in page), strict=True)
        yield Some(numpy.array(numbers, numpy.int64), numpy.array(rows, numpy.int64), signs)


def _unpacked(value: bytes, size: int, gone: NDArray[numpy.int64]) -> Some:
    """A block without what is gone since it was packed."""
    import numpy

    many = len(value) // (16 + size)
    numbers, rows = numpy.frombuffer(value, "<i8", 2 * many).reshape(2, many)
    signs = numpy.frombuffer(value, "<u8", offset=16 * many).reshape(many, -1)
    kept = ~numpy.isin(numbers, gone) if len(gone) else slice(None)
    return Some(numbers[kept], rows[kept], signs[kept])


def _pages(session: Session, model: str, size: int, after: int, last: int) -> Iterator[list[Row]]:
    """What lies between two numbers, a part at a time: as rows of Python a million would take a gigabyte."""
    while after < last:
        page = session.rows("embedding_signs", model=model, size=size, after=after, last=last, limit=PAGE)
        if page:
            yield page
        if len(page) < PAGE:
            return
        after = page[-1][0]


def _empty(size: int) -> Table:
    import numpy

    none = numpy.zeros(0, numpy.int64)
    return Table(none, none, numpy.zeros((size // WORD, 0), numpy.uint64), 0)


def _grown(table: Table, some: Some) -> Table:
    """With more behind. Places are never written twice, so that who searches the smaller table may go on."""
    import numpy

    used, more = table.used, len(some.numbers)
    if used + more > len(table.numbers):
        room = max(1024, 2 * (used + more))
        wider = Table(
            numpy.zeros(room, numpy.int64),
            numpy.zeros(room, numpy.int64),
            numpy.zeros((len(table.words), room), numpy.uint64),
            used,
        )
        wider.numbers[:used] = table.numbers[:used]
        wider.rows[:used] = table.rows[:used]
        wider.words[:, :used] = table.words[:, :used]
        table = wider
    table.numbers[used : used + more] = some.numbers
    table.rows[used : used + more] = some.rows
    table.words[:, used : used + more] = some.signs.T
    return table._replace(used=used + more)


def nearest(
    session: Session, signs: Signs, vector: Vector, parts: Sequence[Part], params: Mapping[str, Any], limit: int
) -> list[Row]:
    """Rows of id and cosine of the nearest memories, each by its nearest passage; filters apply before the limit."""
    if not session.rows("embedding_dim", model=params["model"]):
        return []
    search = Search(session, params["model"], signs_of(vector), _named(session, parts, params))
    width = max(LEAST, BREADTH * limit)
    best: dict[str, float] = {}
    for numbers in search.plainly(width) if signs.begin(session) else search.scan(signs, width):
        found = _measured(session, vector, numbers, parts, params)
        search.forget_gone(signs, numbers, [number for number, _, _ in found])
        for _, id, cosine in found:
            if cosine > best.get(id, NOTHING_NEAR):
                best[id] = cosine
        if len(best) >= limit:
            break
    return _in_order(best)[:limit]


def close(
    session: Session, signs: Signs, many: Sequence[Vector], parts: Sequence[Part], params: Mapping[str, Any], limit: int
) -> list[list[Row]] | None:
    """As `nearest` for each, among those alone whose signs are nearly all the same: one word of them after the other
    leaves fewer.

    None, if to load numpy would take longer than to search without it.
    """
    if not many or (not numpy_loaded() and session.rows("embedding_last")[0][0] <= SLIGHT):
        return None
    import numpy

    asked = [numpy.frombuffer(signs_of(vector), "<u8") for vector in many]
    table = signs.current(session, params["model"], asked[0].nbytes)
    alike = [_alike(table, words, places) for words, places in zip(asked, _begun_alike(table, asked), strict=True)]
    return [_best(session, vector, found, parts, params, limit) for vector, found in zip(many, alike, strict=True)]


def _best(
    session: Session, vector: Vector, numbers: list[int], parts: Sequence[Part], params: Mapping[str, Any], limit: int
) -> list[Row]:
    """The nearest memories among some numbers, which are measured a step at a time until there are enough."""
    best: dict[str, float] = {}
    for start in range(0, min(len(numbers), MOST_ALIKE), LEAST):
        for _, id, cosine in _measured(session, vector, numbers[start : start + LEAST], parts, params):
            best[id] = max(cosine, best.get(id, NOTHING_NEAR))
        if len(best) >= limit:
            break
    return _in_order(best)[:limit]


def _in_order(best: Mapping[str, float]) -> list[Row]:
    return [(id, -cosine) for cosine, id in sorted((-cosine, id) for id, cosine in best.items())]


def _begun_alike(table: Table, asked: Sequence[NDArray[numpy.uint64]]) -> list[NDArray[numpy.int64]]:
    """For each, the places whose first word is nearly the same; a piece of the table at a time, as fits a cache."""
    import numpy

    found: list[list[NDArray[numpy.int64]]] = [[numpy.zeros(0, numpy.int64)] for _ in asked]
    for start in range(0, table.used, PIECE):
        piece = table.words[0, start : min(start + PIECE, table.used)]
        for places, words in zip(found, asked, strict=True):
            places.append(numpy.flatnonzero(numpy.bitwise_count(piece ^ words[0]) <= _may_differ(1)) + start)
    return [numpy.concatenate(places) for places in found]


def _alike(table: Table, words: NDArray[numpy.uint64], places: NDArray[numpy.int64]) -> list[int]:
    """The numbers of those places whose further words are nearly the same too, those that differ least first."""
    import numpy

    differ = numpy.bitwise_count(table.words[0, places] ^ words[0]).astype(numpy.uint16)
    for number in range(1, len(words)):
        differ += numpy.bitwise_count(table.words[number, places] ^ words[number])
        near = differ <= _may_differ(number + 1)
        places, differ = places[near], differ[near]
    found: list[int] = table.numbers[places[numpy.argsort(differ, kind="stable")]].tolist()
    return found


@cache
def _may_differ(words: int) -> int:
    """How many signs of so many words may differ in what is close: three deviations more than usual."""
    signs = 8 * WORD * words
    return int(DIFFERS * signs + 3 * sqrt(signs * DIFFERS * (1 - DIFFERS)))


class Search(NamedTuple):
    """What is looked for: numbers of vectors, those with the most signs in common first, a step at a time."""

    session: Session
    model: str
    asked: bytes
    rows: list[int] | None
    """Of which memories; None: of all."""

    def scan(self, signs: Signs, width: int) -> Iterator[list[int]]:
        """Among all signs that are kept in memory."""
        table = signs.current(self.session, self.model, len(self.asked))
        places = _places(table, self.rows)
        for step in _steps(_distances(table, self.asked, places), width):
            yield table.numbers[step if places is None else places[step]].tolist()

    def plainly(self, width: int) -> Iterator[list[int]]:
        """The same without numpy, and with nothing kept."""
        asked, among = int.from_bytes(self.asked, "little"), None if self.rows is None else set(self.rows)
        ((last,),) = self.session.rows("embedding_last")
        order = sorted(
            ((int.from_bytes(signs, "little") ^ asked).bit_count(), number)
            for page in _pages(self.session, self.model, len(self.asked), 0, last)
            for number, row, signs in page
            if among is None or row in among
        )
        numbers, start = [number for _, number in order], 0
        while start < len(numbers):
            yield numbers[start : start + (start or width)]
            start += start or width

    def forget_gone(self, signs: Signs, numbers: Sequence[int], found: Sequence[int]) -> None:
        """What did not come back because it is not there any more need not be looked at again."""
        missing = set(numbers).difference(found)
        if len(missing) > len(numbers) // 2:
            there = {number for (number,) in self.session.rows("embedding_numbers", numbers=list(missing))}
            ((last,),) = self.session.rows("embedding_last")
            signs.forget(self.model, len(self.asked), [number for number in missing - there if number <= (last or 0)])


def _steps(distances: NDArray[numpy.uint16], width: int) -> Iterator[NDArray[numpy.int64]]:
    """Which are the nearest, the next after them, and so on: every step but the first is as long as all before it."""
    import numpy

    yield _least(distances, width)
    if width < len(distances):
        order = numpy.argsort(distances, kind="stable")
        while width < len(distances):
            yield order[width : 2 * width]
            width *= 2


def _least(distances: NDArray[numpy.uint16], count: int) -> NDArray[numpy.int64]:
    """Which are the least so many, in order. To count how many there are of each is quicker than to sort them all."""
    import numpy

    reach = int(numpy.searchsorted(numpy.cumsum(numpy.bincount(distances)), count))
    near = numpy.flatnonzero(distances <= reach)
    return near[numpy.argsort(distances[near], kind="stable")][:count]


_NUMBERS = msgspec.json.Decoder(list[int])


def _named(session: Session, parts: Sequence[Part], params: Mapping[str, Any]) -> list[int] | None:
    """The rows that a narrow filter leaves; None: so many that they are not worth naming."""
    if WIDE.issuperset(parts):
        return None
    ((found,),) = session.assembled(("memory_rows", *parts, "memory_rows.end"), {**params, "limit": FEW + 1})
    rows = _NUMBERS.decode(found)
    return None if len(rows) > FEW else rows


def _places(table: Table, rows: list[int] | None) -> NDArray[numpy.int64] | None:
    """Where in the table some rows have their signs; None: all of it."""
    import numpy

    if rows is None:
        return None
    among = numpy.zeros(int(table.rows[: table.used].max(initial=0)) + 1, bool)
    wanted = numpy.array(rows, numpy.int64)
    among[wanted[wanted < len(among)]] = True
    return numpy.flatnonzero(among[table.rows[: table.used]])


def _distances(table: Table, asked: bytes, places: NDArray[numpy.int64] | None) -> NDArray[numpy.uint16]:
    """How many signs differ, place by place."""
    import numpy

    size = table.used if places is None else len(places)
    found, differ, many = (
        numpy.zeros(size, numpy.uint16),
        numpy.empty(size, numpy.uint64),
        numpy.empty(size, numpy.uint8),
    )
    words = list(zip(table.words, numpy.frombuffer(asked, "<u8"), strict=True))
    for first in range(0, len(words), TOGETHER):
        some = numpy.zeros(size, numpy.uint8)
        for column, word in words[first : first + TOGETHER]:
            numpy.bitwise_xor(column[: table.used] if places is None else column[places], word, out=differ)
            some += numpy.bitwise_count(differ, out=many)
        found += some
    return found


def _measured(
    session: Session, vector: Vector, numbers: list[int], parts: Sequence[Part], params: Mapping[str, Any]
) -> list[tuple[int, str, float]]:
    """Numbers, ids and cosines of those that pass the filters and whose vector is current."""
    rows = session.assembled(("embedding_found", *parts), {**params, "numbers": numbers})
    return [
        (number, id, cosine)
        for (number, id, _), cosine in zip(rows, cosines(vector, [row[2] for row in rows]), strict=True)
    ]
