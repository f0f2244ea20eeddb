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
from holdfast.kernel.storage.port import Row, Session, SqlPart
from holdfast.kernel.vector import Vector

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray


_HIGH_BITS = bytes(b"0"[0] if byte < 0x80 else b"1"[0] for byte in range(256))
WORD_BYTES = 8
"""Bytes compared at once."""
WORDS_PER_COUNT = 3
"""Words whose differing bits a byte can count."""
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
"""Up to this many vectors, a process's first search runs without numpy: it may be the only one."""
PAGE_SIZE = 50_000
"""Vectors read per statement."""
BLOCK_SIZE = 1024
"""Vectors per packed block, as in the migration."""
BLOCKS_PER_READ = 64
"""Blocks read per statement."""
CLOSE_SHARE = 0.177
"""Share of differing bits of two vectors with a cosine of 0.85."""
PIECE_SIZE = 16_384
WIDE_FILTERS = frozenset({"memory.visible", "memory.live", "memory.kept"})
"""Filters that usually leave most memories."""


def signs_of(vector: Any) -> bytes:
    """Return one bit per number, set if negative, padded to a multiple of a word."""
    bits = vector[3::4].translate(_HIGH_BITS)
    size = -(-len(bits) // (8 * WORD_BYTES)) * WORD_BYTES
    return int(bits, 2).to_bytes(size, "little") if bits else b""


def pack_block(rows: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Encode numbers, rows and bits of a block as one value."""
    ordered = sorted(rows)
    numbers = [*(number for number, _, _ in ordered), *(row for _, row, _ in ordered)]
    return struct.pack(f"<{len(numbers)}q", *numbers) + b"".join(signs for _, _, signs in ordered)


class SignRows(NamedTuple):
    """Bits of some vectors, one row each."""

    numbers: NDArray[numpy.int64]
    rows: NDArray[numpy.int64]
    signs: NDArray[numpy.uint64]


class SignTable(NamedTuple):
    """Bits of all vectors of one model, one column per word."""

    numbers: NDArray[numpy.int64]
    rows: NDArray[numpy.int64]
    words: NDArray[numpy.uint64]
    used: int
    """Number of used rows; the others are spare."""


class BinaryIndex:
    """In-memory binary index of a store's vectors. New vectors are read before each search."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._has_searched = False
        self._origin = ""
        self._tables: dict[tuple[str, int], SignTable] = {}
        self._read_up_to: dict[tuple[str, int], int] = {}
        """Highest number read per table; the last vector may be of another model."""

    def current(self, session: Session, model: str, size: int) -> SignTable:
        """Return all bits of a model that the session sees, possibly with newer and deleted ones."""
        ((origin,),) = session.rows("chain_origin")
        ((last,),) = session.rows("embedding_last")
        with self._lock:
            if origin != self._origin:
                self._origin, self._tables, self._read_up_to = origin, {}, {}
            table = self._tables.get((model, size)) or _empty(size)
            after = self._read_up_to.get((model, size), 0)
            if last > after:
                for some in _read_new(session, model, size, after, last):
                    table = _extend(table, some)
                self._tables[model, size], self._read_up_to[model, size] = table, last
            return table

    def is_small_first_search(self, session: Session) -> bool:
        """Whether this is the first search, in a store so small that loading numpy would take longer."""
        first, self._has_searched = not self._has_searched, True
        return first and not numpy_loaded() and session.rows("embedding_last")[0][0] <= MAX_WITHOUT_NUMPY

    def remove(self, model: str, size: int, removed: Sequence[int]) -> None:
        """Remove numbers that are no longer in the store."""
        import numpy

        with self._lock:
            table = self._tables.get((model, size))
            if table is None or not removed:
                return
            kept = ~numpy.isin(table.numbers[: table.used], removed)
            self._tables[model, size] = SignTable(
                table.numbers[: table.used][kept],
                table.rows[: table.used][kept],
                numpy.ascontiguousarray(table.words[:, : table.used][:, kept]),
                int(kept.sum()),
            )


def _read_new(session: Session, model: str, size: int, after: int, last: int) -> Iterator[SignRows]:
    """Read vectors added after a number, in order: packed blocks, and single rows in between."""
    import numpy

    gone = numpy.array([number for (number,) in session.rows("embedding_removed", after=after)], numpy.int64)
    first = -(-after // BLOCK_SIZE)
    while page := session.rows("embedding_packs", model=model, size=size, block=first, limit=BLOCKS_PER_READ):
        for block, value in page:
            yield from _read_rows(session, model, size, after, block * BLOCK_SIZE)
            yield _unpack_block(value, size, gone)
            after = (block + 1) * BLOCK_SIZE
        first = page[-1][0] + 1
    yield from _read_rows(session, model, size, after, last)


def _read_rows(session: Session, model: str, size: int, after: int, last: int) -> Iterator[SignRows]:
    import numpy

    for page in _pages(session, model, size, after, last):
        signs = numpy.frombuffer(b"".join(row[2] for row in page), "<u8").reshape(len(page), -1)
        numbers, rows = zip(*((number, row) for number, row, _ in page), strict=True)
        yield SignRows(numpy.array(numbers, numpy.int64), numpy.array(rows, numpy.int64), signs)


def _unpack_block(value: bytes, size: int, gone: NDArray[numpy.int64]) -> SignRows:
    """Decode a block without vectors deleted since."""
    import numpy

    many = len(value) // (16 + size)
    numbers, rows = numpy.frombuffer(value, "<i8", 2 * many).reshape(2, many)
    signs = numpy.frombuffer(value, "<u8", offset=16 * many).reshape(many, -1)
    kept = ~numpy.isin(numbers, gone) if len(gone) else slice(None)
    return SignRows(numbers[kept], rows[kept], signs[kept])


def _pages(session: Session, model: str, size: int, after: int, last: int) -> Iterator[list[Row]]:
    """Read the rows between two numbers in pages: a million Python rows would take a gigabyte."""
    while after < last:
        page = session.rows("embedding_signs", model=model, size=size, after=after, last=last, limit=PAGE_SIZE)
        if page:
            yield page
        if len(page) < PAGE_SIZE:
            return
        after = page[-1][0]


def _empty(size: int) -> SignTable:
    import numpy

    none = numpy.zeros(0, numpy.int64)
    return SignTable(none, none, numpy.zeros((size // WORD_BYTES, 0), numpy.uint64), 0)


def _extend(table: SignTable, some: SignRows) -> SignTable:
    """Append vectors. Used rows are never overwritten, so that concurrent searches of the old table stay valid."""
    import numpy

    used, more = table.used, len(some.numbers)
    if used + more > len(table.numbers):
        room = max(1024, 2 * (used + more))
        wider = SignTable(
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


def find_nearest(
    session: Session,
    signs: BinaryIndex,
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
        search.scan_without_numpy(width) if signs.is_small_first_search(session) else search.scan(signs, width)
    ):
        found = _exact_cosines(session, vector, numbers, parts, params)
        search.remove_deleted(signs, numbers, [number for number, _, _ in found])
        for _, id, cosine in found:
            if cosine > best.get(id, NO_COSINE):
                best[id] = cosine
        if len(best) >= limit:
            break
    return _sort_best(best)[:limit]


def find_close(
    session: Session,
    signs: BinaryIndex,
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
    import numpy

    asked = [numpy.frombuffer(signs_of(vector), "<u8") for vector in many]
    table = signs.current(session, params["model"], asked[0].nbytes)
    alike = [
        _match_all_words(table, words, places)
        for words, places in zip(asked, _match_first_word(table, asked), strict=True)
    ]
    return [
        _nearest_among(session, vector, found, parts, params, limit) for vector, found in zip(many, alike, strict=True)
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


def _match_first_word(table: SignTable, asked: Sequence[NDArray[numpy.uint64]]) -> list[NDArray[numpy.int64]]:
    """Return for each query the positions with a nearly identical first word, in cache-sized pieces."""
    import numpy

    found: list[list[NDArray[numpy.int64]]] = [[numpy.zeros(0, numpy.int64)] for _ in asked]
    for start in range(0, table.used, PIECE_SIZE):
        piece = table.words[0, start : min(start + PIECE_SIZE, table.used)]
        for places, words in zip(found, asked, strict=True):
            places.append(numpy.flatnonzero(numpy.bitwise_count(piece ^ words[0]) <= _max_difference(1)) + start)
    return [numpy.concatenate(places) for places in found]


def _match_all_words(table: SignTable, words: NDArray[numpy.uint64], places: NDArray[numpy.int64]) -> list[int]:
    """Return the numbers of positions whose other words are nearly identical too, nearest first."""
    import numpy

    differ = numpy.bitwise_count(table.words[0, places] ^ words[0]).astype(numpy.uint16)
    for number in range(1, len(words)):
        differ += numpy.bitwise_count(table.words[number, places] ^ words[number])
        near = differ <= _max_difference(number + 1)
        places, differ = places[near], differ[near]
    found: list[int] = table.numbers[places[numpy.argsort(differ, kind="stable")]].tolist()
    return found


@cache
def _max_difference(words: int) -> int:
    """Return how many bits may differ in a close vector: the mean plus three standard deviations."""
    signs = 8 * WORD_BYTES * words
    return int(CLOSE_SHARE * signs + 3 * sqrt(signs * CLOSE_SHARE * (1 - CLOSE_SHARE)))


class Search(NamedTuple):
    """A search that yields numbers of vectors in steps, most common bits first."""

    session: Session
    model: str
    query: bytes
    rows: list[int] | None
    """Rows to search; None: all."""

    def scan(self, signs: BinaryIndex, width: int) -> Iterator[list[int]]:
        """Search the binary index in memory."""
        table = signs.current(self.session, self.model, len(self.query))
        places = _positions(table, self.rows)
        for step in _steps(_distances(table, self.query, places), width):
            yield table.numbers[step if places is None else places[step]].tolist()

    def scan_without_numpy(self, width: int) -> Iterator[list[int]]:
        """Search without numpy, directly in the tables."""
        asked, among = int.from_bytes(self.query, "little"), None if self.rows is None else set(self.rows)
        ((last,),) = self.session.rows("embedding_last")
        order = sorted(
            ((int.from_bytes(signs, "little") ^ asked).bit_count(), number)
            for page in _pages(self.session, self.model, len(self.query), 0, last)
            for number, row, signs in page
            if among is None or row in among
        )
        numbers, start = [number for _, number in order], 0
        while start < len(numbers):
            yield numbers[start : start + (start or width)]
            start += start or width

    def remove_deleted(self, signs: BinaryIndex, numbers: Sequence[int], found: Sequence[int]) -> None:
        """Remove deleted vectors from the index, if many results were missing."""
        missing = set(numbers).difference(found)
        if len(missing) > len(numbers) // 2:
            there = {number for (number,) in self.session.rows("embedding_numbers", numbers=list(missing))}
            ((last,),) = self.session.rows("embedding_last")
            signs.remove(self.model, len(self.query), [number for number in missing - there if number <= (last or 0)])


def _steps(distances: NDArray[numpy.uint16], width: int) -> Iterator[NDArray[numpy.int64]]:
    """Yield the nearest positions, then the next ones; each further step is as long as all before it."""
    import numpy

    yield _smallest(distances, width)
    if width < len(distances):
        order = numpy.argsort(distances, kind="stable")
        while width < len(distances):
            yield order[width : 2 * width]
            width *= 2


def _smallest(distances: NDArray[numpy.uint16], count: int) -> NDArray[numpy.int64]:
    """Return the positions of the smallest distances in order. Counting is faster than a full sort."""
    import numpy

    reach = int(numpy.searchsorted(numpy.cumsum(numpy.bincount(distances)), count))
    near = numpy.flatnonzero(distances <= reach)
    return near[numpy.argsort(distances[near], kind="stable")][:count]


_NUMBERS = msgspec.json.Decoder(list[int])


def _filtered_rows(session: Session, parts: Sequence[SqlPart], params: Mapping[str, Any]) -> list[int] | None:
    """Return the rows that a narrow filter leaves; None if there are too many."""
    if WIDE_FILTERS.issuperset(parts):
        return None
    ((found,),) = session.select(("memory_rows", *parts, "memory_rows.end"), {**params, "limit": MAX_FILTERED_ROWS + 1})
    rows = _NUMBERS.decode(found)
    return None if len(rows) > MAX_FILTERED_ROWS else rows


def _positions(table: SignTable, rows: list[int] | None) -> NDArray[numpy.int64] | None:
    """Return the positions of some rows in the table; None: all."""
    import numpy

    if rows is None:
        return None
    among = numpy.zeros(int(table.rows[: table.used].max(initial=0)) + 1, bool)
    wanted = numpy.array(rows, numpy.int64)
    among[wanted[wanted < len(among)]] = True
    return numpy.flatnonzero(among[table.rows[: table.used]])


def _distances(table: SignTable, asked: bytes, places: NDArray[numpy.int64] | None) -> NDArray[numpy.uint16]:
    """Return the number of differing bits per position."""
    import numpy

    size = table.used if places is None else len(places)
    found, differ, many = (
        numpy.zeros(size, numpy.uint16),
        numpy.empty(size, numpy.uint64),
        numpy.empty(size, numpy.uint8),
    )
    words = list(zip(table.words, numpy.frombuffer(asked, "<u8"), strict=True))
    for first in range(0, len(words), WORDS_PER_COUNT):
        some = numpy.zeros(size, numpy.uint8)
        for column, word in words[first : first + WORDS_PER_COUNT]:
            numpy.bitwise_xor(column[: table.used] if places is None else column[places], word, out=differ)
            some += numpy.bitwise_count(differ, out=many)
        found += some
    return found


def _exact_cosines(
    session: Session, vector: Vector, numbers: list[int], parts: Sequence[SqlPart], params: Mapping[str, Any]
) -> list[tuple[int, str, float]]:
    """Return numbers, ids and cosines of current vectors that pass the filters."""
    rows = session.select(("embedding_nearest", *parts), {**params, "numbers": numbers})
    return [
        (number, id, cosine)
        for (number, id, _), cosine in zip(rows, cosines(vector, [row[2] for row in rows]), strict=True)
    ]
