"""Nearest-neighbour search: first by a binary index in memory (one bit per number), then exactly."""

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
"""Bytes compared at once."""
TOGETHER = 3
"""Words whose differing bits a byte can count."""
FEW = 20_000
"""Up to this many filtered memories, only their vectors are searched."""
BREADTH = 2
"""Passages to measure exactly per requested memory: the binary order is approximate, and a memory may have several."""
LEAST = 120
"""Minimum number of vectors to measure exactly."""
MOST_ALIKE = 10 * LEAST
"""Limit of nearly identical vectors to measure: filters may exclude many."""
NOTHING_NEAR = -2.0
"""Lower than every cosine."""
SLIGHT = 30_000
"""Up to this many vectors, a process's first search runs without numpy: it may be the only one."""
PAGE = 50_000
"""Vectors read per statement."""
BLOCK = 1024
"""Vectors per packed block, as in the migration."""
BLOCKS = 64
"""Blocks read per statement."""
DIFFERS = 0.177
"""Share of differing bits of two vectors with a cosine of 0.85."""
PIECE = 16_384
WIDE = frozenset({"memory.visible", "memory.live", "memory.kept"})
"""Filters that usually leave most memories."""


def signs_of(vector: Any) -> bytes:
    """Return one bit per number, set if negative, padded to a multiple of a word."""
    bits = vector[3::4].translate(_HIGH_BITS)
    size = -(-len(bits) // (8 * WORD)) * WORD
    return int(bits, 2).to_bytes(size, "little") if bits else b""


def packed(rows: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Encode numbers, rows and bits of a block as one value."""
    ordered = sorted(rows)
    numbers = [*(number for number, _, _ in ordered), *(row for _, row, _ in ordered)]
    return struct.pack(f"<{len(numbers)}q", *numbers) + b"".join(signs for _, _, signs in ordered)


class Some(NamedTuple):
    """Bits of some vectors, one row each."""

    numbers: NDArray[numpy.int64]
    rows: NDArray[numpy.int64]
    signs: NDArray[numpy.uint64]


class Table(NamedTuple):
    """Bits of all vectors of one model, one column per word."""

    numbers: NDArray[numpy.int64]
    rows: NDArray[numpy.int64]
    words: NDArray[numpy.uint64]
    used: int
    """Number of used rows; the others are spare."""


class Signs:
    """In-memory binary index of a store's vectors. New vectors are read before each search."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = False
        self._origin = ""
        self._tables: dict[tuple[str, int], Table] = {}
        self._read: dict[tuple[str, int], int] = {}
        """Highest number read per table; the last vector may be of another model."""

    def current(self, session: Session, model: str, size: int) -> Table:
        """Return all bits of a model that the session sees, possibly with newer and deleted ones."""
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
        """Whether this is the first search, in a store so small that loading numpy would take longer."""
        first, self._begun = not self._begun, True
        return first and not numpy_loaded() and session.rows("embedding_last")[0][0] <= SLIGHT

    def forget(self, model: str, size: int, gone: Sequence[int]) -> None:
        """Remove numbers that are no longer in the store."""
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
    """Read vectors added after a number, in order: packed blocks, and single rows in between."""
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
    """Decode a block without vectors deleted since."""
    import numpy

    many = len(value) // (16 + size)
    numbers, rows = numpy.frombuffer(value, "<i8", 2 * many).reshape(2, many)
    signs = numpy.frombuffer(value, "<u8", offset=16 * many).reshape(many, -1)
    kept = ~numpy.isin(numbers, gone) if len(gone) else slice(None)
    return Some(numbers[kept], rows[kept], signs[kept])


def _pages(session: Session, model: str, size: int, after: int, last: int) -> Iterator[list[Row]]:
    """Read the rows between two numbers in pages: a million Python rows would take a gigabyte."""
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
    """Append vectors. Used rows are never overwritten, so that concurrent searches of the old table stay valid."""
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
    """Return rows of id and cosine of the nearest memories by their nearest passage, filtered before the limit."""
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
    """Like `nearest` for each vector, but only among those with nearly identical bits, narrowed word by word.

    Returns None if loading numpy would take longer than searching without it.
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
    """Return the nearest memories among some numbers, measured in steps until there are enough."""
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
    """Return for each query the positions with a nearly identical first word, in cache-sized pieces."""
    import numpy

    found: list[list[NDArray[numpy.int64]]] = [[numpy.zeros(0, numpy.int64)] for _ in asked]
    for start in range(0, table.used, PIECE):
        piece = table.words[0, start : min(start + PIECE, table.used)]
        for places, words in zip(found, asked, strict=True):
            places.append(numpy.flatnonzero(numpy.bitwise_count(piece ^ words[0]) <= _may_differ(1)) + start)
    return [numpy.concatenate(places) for places in found]


def _alike(table: Table, words: NDArray[numpy.uint64], places: NDArray[numpy.int64]) -> list[int]:
    """Return the numbers of positions whose other words are nearly identical too, nearest first."""
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
    """Return how many bits may differ in a close vector: the mean plus three standard deviations."""
    signs = 8 * WORD * words
    return int(DIFFERS * signs + 3 * sqrt(signs * DIFFERS * (1 - DIFFERS)))


class Search(NamedTuple):
    """A search that yields numbers of vectors in steps, most common bits first."""

    session: Session
    model: str
    asked: bytes
    rows: list[int] | None
    """Rows to search; None: all."""

    def scan(self, signs: Signs, width: int) -> Iterator[list[int]]:
        """Search the binary index in memory."""
        table = signs.current(self.session, self.model, len(self.asked))
        places = _places(table, self.rows)
        for step in _steps(_distances(table, self.asked, places), width):
            yield table.numbers[step if places is None else places[step]].tolist()

    def plainly(self, width: int) -> Iterator[list[int]]:
        """Search without numpy, directly in the tables."""
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
        """Remove deleted vectors from the index, if many results were missing."""
        missing = set(numbers).difference(found)
        if len(missing) > len(numbers) // 2:
            there = {number for (number,) in self.session.rows("embedding_numbers", numbers=list(missing))}
            ((last,),) = self.session.rows("embedding_last")
            signs.forget(self.model, len(self.asked), [number for number in missing - there if number <= (last or 0)])


def _steps(distances: NDArray[numpy.uint16], width: int) -> Iterator[NDArray[numpy.int64]]:
    """Yield the nearest positions, then the next ones; each further step is as long as all before it."""
    import numpy

    yield _least(distances, width)
    if width < len(distances):
        order = numpy.argsort(distances, kind="stable")
        while width < len(distances):
            yield order[width : 2 * width]
            width *= 2


def _least(distances: NDArray[numpy.uint16], count: int) -> NDArray[numpy.int64]:
    """Return the positions of the smallest distances in order. Counting is faster than a full sort."""
    import numpy

    reach = int(numpy.searchsorted(numpy.cumsum(numpy.bincount(distances)), count))
    near = numpy.flatnonzero(distances <= reach)
    return near[numpy.argsort(distances[near], kind="stable")][:count]


_NUMBERS = msgspec.json.Decoder(list[int])


def _named(session: Session, parts: Sequence[Part], params: Mapping[str, Any]) -> list[int] | None:
    """Return the rows that a narrow filter leaves; None if there are too many."""
    if WIDE.issuperset(parts):
        return None
    ((found,),) = session.assembled(("memory_rows", *parts, "memory_rows.end"), {**params, "limit": FEW + 1})
    rows = _NUMBERS.decode(found)
    return None if len(rows) > FEW else rows


def _places(table: Table, rows: list[int] | None) -> NDArray[numpy.int64] | None:
    """Return the positions of some rows in the table; None: all."""
    import numpy

    if rows is None:
        return None
    among = numpy.zeros(int(table.rows[: table.used].max(initial=0)) + 1, bool)
    wanted = numpy.array(rows, numpy.int64)
    among[wanted[wanted < len(among)]] = True
    return numpy.flatnonzero(among[table.rows[: table.used]])


def _distances(table: Table, asked: bytes, places: NDArray[numpy.int64] | None) -> NDArray[numpy.uint16]:
    """Return the number of differing bits per position."""
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
    """Return numbers, ids and cosines of current vectors that pass the filters."""
    rows = session.assembled(("embedding_found", *parts), {**params, "numbers": numbers})
    return [
        (number, id, cosine)
        for (number, id, _), cosine in zip(rows, cosines(vector, [row[2] for row in rows]), strict=True)
    ]
