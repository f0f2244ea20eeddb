"""Binary index in memory: one bit per number of each vector, searched by numpy."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cache
from math import sqrt
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from holdfast.kernel.storage.port import Row, Session
from holdfast.kernel.vector import WORD_BYTES

WORDS_PER_COUNT = 3
"""Words whose differing bits a byte can count."""
BLOCK_SIZE = 1024
"""Vectors per packed block, as in the migration."""
PAGE_SIZE = 50_000
"""Vectors read per statement: a million Python rows would take a gigabyte."""
BLOCKS_PER_READ = 64
"""Blocks read per statement."""
CLOSE_SHARE = 0.177
"""Share of differing bits of two vectors with a cosine of 0.85."""
PIECE_SIZE = 16_384


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


class LoadedIndex:
    """In-memory binary index of a store's vectors. New vectors are read before each search."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._origin = ""
        self._tables: dict[tuple[str, int], SignTable] = {}
        self._read_up_to: dict[tuple[str, int], int] = {}
        """Highest number read per table; the last vector may be of another model."""

    def current(self, session: Session, model: str, size: int) -> SignTable:
        """Return all bits of a model that the session sees, possibly with newer and deleted ones."""
        ((origin,),) = session.rows("journal_head_origin")
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

    def remove(self, model: str, size: int, removed: Sequence[int]) -> None:
        """Remove numbers that are no longer in the store."""
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

    def scan(
        self, session: Session, model: str, query: bytes, rows: list[int] | None, width: int
    ) -> Iterator[list[int]]:
        """Yield the numbers of vectors in steps, most common bits first; only of some rows, if given."""
        table = self.current(session, model, len(query))
        places = _positions(table, rows)
        for step in _steps(_distances(table, query, places), width):
            yield table.numbers[step if places is None else places[step]].tolist()

    def find_close(self, session: Session, model: str, queries: Sequence[bytes]) -> list[list[int]]:
        """Return for each query the numbers of vectors with nearly identical bits, narrowed word by word."""
        asked = [numpy.frombuffer(query, "<u8") for query in queries]
        table = self.current(session, model, len(queries[0]))
        first = _match_first_word(table, asked)
        return [_match_all_words(table, words, places) for words, places in zip(asked, first, strict=True)]


def _read_new(session: Session, model: str, size: int, after: int, last: int) -> Iterator[SignRows]:
    """Read vectors added after a number, in order: packed blocks, and single rows in between."""
    gone = numpy.array([number for (number,) in session.rows("embedding_removed", after=after)], numpy.int64)
    first = -(-after // BLOCK_SIZE)
    while page := session.rows("binary_index_packs", model=model, size=size, block=first, limit=BLOCKS_PER_READ):
        for block, value in page:
            yield from _read_rows(session, model, size, after, block * BLOCK_SIZE)
            yield _unpack_block(value, size, gone)
            after = (block + 1) * BLOCK_SIZE
        first = page[-1][0] + 1
    yield from _read_rows(session, model, size, after, last)


def _read_rows(session: Session, model: str, size: int, after: int, last: int) -> Iterator[SignRows]:
    for page in _read_pages(session, model, size, after, last):
        signs = numpy.frombuffer(b"".join(row[2] for row in page), "<u8").reshape(len(page), -1)
        numbers, rows = zip(*((number, row) for number, row, _ in page), strict=True)
        yield SignRows(numpy.array(numbers, numpy.int64), numpy.array(rows, numpy.int64), signs)


def _read_pages(session: Session, model: str, size: int, after: int, last: int) -> Iterator[list[Row]]:
    """Read the rows between two numbers in pages."""
    while after < last:
        page = session.rows("binary_index_page", model=model, size=size, after=after, last=last, limit=PAGE_SIZE)
        if page:
            yield page
        if len(page) < PAGE_SIZE:
            return
        after = page[-1][0]


def _unpack_block(value: bytes, size: int, gone: NDArray[numpy.int64]) -> SignRows:
    """Decode a block without vectors deleted since."""
    many = len(value) // (16 + size)
    numbers, rows = numpy.frombuffer(value, "<i8", 2 * many).reshape(2, many)
    signs = numpy.frombuffer(value, "<u8", offset=16 * many).reshape(many, -1)
    kept = ~numpy.isin(numbers, gone) if len(gone) else slice(None)
    return SignRows(numbers[kept], rows[kept], signs[kept])


def _empty(size: int) -> SignTable:
    none = numpy.zeros(0, numpy.int64)
    return SignTable(none, none, numpy.zeros((size // WORD_BYTES, 0), numpy.uint64), 0)


def _extend(table: SignTable, some: SignRows) -> SignTable:
    """Append vectors. Used rows are never overwritten, so that concurrent searches of the old table stay valid."""
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


def _match_first_word(table: SignTable, asked: Sequence[NDArray[numpy.uint64]]) -> list[NDArray[numpy.int64]]:
    """Return for each query the positions with a nearly identical first word, in cache-sized pieces."""
    found: list[list[NDArray[numpy.int64]]] = [[numpy.zeros(0, numpy.int64)] for _ in asked]
    for start in range(0, table.used, PIECE_SIZE):
        piece = table.words[0, start : min(start + PIECE_SIZE, table.used)]
        for places, words in zip(found, asked, strict=True):
            places.append(numpy.flatnonzero(numpy.bitwise_count(piece ^ words[0]) <= _max_difference(1)) + start)
    return [numpy.concatenate(places) for places in found]


def _match_all_words(table: SignTable, words: NDArray[numpy.uint64], places: NDArray[numpy.int64]) -> list[int]:
    """Return the numbers of positions whose other words are nearly identical too, nearest first."""
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


def _positions(table: SignTable, rows: list[int] | None) -> NDArray[numpy.int64] | None:
    """Return the positions of some rows in the table; None: all."""
    if rows is None:
        return None
    among = numpy.zeros(int(table.rows[: table.used].max(initial=0)) + 1, bool)
    wanted = numpy.array(rows, numpy.int64)
    among[wanted[wanted < len(among)]] = True
    return numpy.flatnonzero(among[table.rows[: table.used]])


def _distances(table: SignTable, asked: bytes, places: NDArray[numpy.int64] | None) -> NDArray[numpy.uint16]:
    """Return the number of differing bits per position."""
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


def _steps(distances: NDArray[numpy.uint16], width: int) -> Iterator[NDArray[numpy.int64]]:
    """Yield the nearest positions, then the next ones; each further step is as long as all before it."""
    yield _smallest(distances, width)
    if width < len(distances):
        order = numpy.argsort(distances, kind="stable")
        while width < len(distances):
            yield order[width : 2 * width]
            width *= 2


def _smallest(distances: NDArray[numpy.uint16], count: int) -> NDArray[numpy.int64]:
    """Return the positions of the smallest distances in order. Counting is faster than a full sort."""
    reach = int(numpy.searchsorted(numpy.cumsum(numpy.bincount(distances)), count))
    near = numpy.flatnonzero(distances <= reach)
    return near[numpy.argsort(distances[near], kind="stable")][:count]
