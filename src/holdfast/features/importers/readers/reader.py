"""Shared parts of readers: progress, and iteration over arrays, members and lines."""

import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import IO, Any, TypeVar

from holdfast.features.importers.model import Problem, Record
from holdfast.features.importers.readers.json_elements import (
    MAX_ELEMENT_BYTES,
    Fault,
    Line,
    decode_json,
    read_elements,
    read_lines,
    read_objects,
)
from holdfast.features.importers.sources import Piece, open_with_progress
from holdfast.kernel.errors import Invalid

PROBE_COUNT = 20
"""Lines or members that format detection reads."""
MAX_PROBE_LINE_BYTES = 8 << 20
"""Bytes of a line in format detection."""
ProgressCallback = Callable[[int], None]
"""Receives the number of bytes read since the last call."""
R = TypeVar("R")
RawItem = tuple[str, Any]
"""Place and decoded value."""
READ_ERRORS = (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError)
"""Exceptions of a failing disk or a damaged archive."""


def trim_start(head: bytes) -> bytes:
    """Beginning of a file without byte order mark and whitespace."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()


def stop_at_read_error(name: str, records: Iterator[R]) -> Iterator[R | Problem]:
    """Yield records until a read error, then report it."""
    try:
        yield from records
    except READ_ERRORS as error:
        yield Problem(where=name, what=f"read error: {error}")


def read_first_lines(piece: Piece, number: int) -> Iterator[Any]:
    """Decode the first lines of a file that are JSON objects."""
    with piece.open() as source:
        for line in islice(read_lines(source, piece.name, MAX_PROBE_LINE_BYTES), number):
            if isinstance(line, Line) and line.data.startswith(b"{"):
                with suppress(Invalid):
                    yield decode_json(line.data)


def is_json_lines(piece: Piece) -> bool:
    """Whether the first line of a file is a JSON object."""
    return next(read_first_lines(piece, 1), None) is not None


def read_items(piece: Piece, on_read: ProgressCallback, within: str) -> Iterator[RawItem | Problem]:
    """Items of a file: of an array, of the named array in an object, JSON lines, or a single value."""
    head = piece.read_head()
    with open_with_progress(piece, on_read) as source:
        if trim_start(head).startswith(b"["):
            yield from read_array(source, piece.name, None)
        elif f'"{within}"'.encode() in head[:4096]:
            yield from read_array(source, piece.name, within)
        elif is_json_lines(piece):
            yield from read_objects(source, piece.name)
        else:
            yield read_single(source, piece.name)


def read_members(source: IO[bytes], name: str) -> Iterator[tuple[str, str | None, Any | Problem]]:
    """Values of a document with place and member name. Null members are skipped."""
    for element in read_elements(source):
        place = f"{name} byte {element.at}"
        if isinstance(element, Fault):
            yield place, None, Problem(where=place, what=element.what)
            continue
        if element.data == b"null" and element.is_single:
            continue
        try:
            yield place, element.name, decode_json(element.data)
        except Invalid as error:
            yield place, element.name, Problem(where=place, what=error.message)


def read_array(source: IO[bytes], name: str, within: str | None) -> Iterator[RawItem | Problem]:
    """Decoded elements of an array. A fault is reported and the next element follows."""
    number = -1
    for element in read_elements(source):
        if isinstance(element, Fault):
            yield Problem(where=f"{name} byte {element.at}", what=element.what)
            continue
        if element.name != within:
            continue
        number += 1
        try:
            yield f"{name}[{number}]", decode_json(element.data)
        except Invalid as error:
            yield Problem(where=f"{name}[{number}] byte {element.at}", what=error.message)


def read_single(source: IO[bytes], name: str, max_bytes: int = MAX_ELEMENT_BYTES) -> RawItem | Problem:
    """Decode a file that is a single JSON value."""
    data = source.read(max_bytes + 1)
    if len(data) > max_bytes:
        return Problem(where=name, what=f"single JSON value of more than {max_bytes} bytes")
    try:
        return name, decode_json(data.removeprefix(b"\xef\xbb\xbf"))
    except Invalid as error:
        return Problem(where=name, what=error.message)


def apply_reader(
    items: Iterator[tuple[str, R] | Problem], read_item: Callable[[R, str], Iterator[Record]]
) -> Iterator[Record]:
    """Apply a reader to the value and place of each item; pass problems through."""
    for one in items:
        if isinstance(one, Problem):
            yield one
        else:
            yield from read_item(one[1], one[0])


def read_entries(
    piece: Piece, on_read: ProgressCallback, read_entry: Callable[[dict[str, Any], str], Iterator[Record]]
) -> Iterator[Record]:
    """Apply a reader to every object of a JSON lines file; passes problems through."""
    with open_with_progress(piece, on_read) as source:
        yield from apply_reader(read_objects(source, piece.name), read_entry)
