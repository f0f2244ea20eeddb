"""Shared parts of readers: progress, and iteration over arrays, members and lines."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import IO, Any, TypeVar

from holdfast.features.importers.model import Problem, Record
from holdfast.features.importers.readers.json_elements import MOST_ELEMENT, Fault, decoded, elements
from holdfast.features.importers.readers.json_lines import Line, lines, objects
from holdfast.features.importers.sources import Piece, watched
from holdfast.kernel.errors import Invalid

LOOKED_AT = 20
"""Lines or members that format detection reads."""
MOST_FIRST = 8 << 20
"""Bytes of a line in format detection."""
Told = Callable[[int], None]
"""Receives the number of bytes read since the last call."""
R = TypeVar("R")
Raw = tuple[str, Any]
"""Place and decoded value."""


def start_of(head: bytes) -> bytes:
    """Beginning of a file without byte order mark and whitespace."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()


def unreadable() -> tuple[type[Exception], ...]:
    """Exceptions of a failing disk or a damaged archive."""
    import zipfile
    import zlib

    return OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError


def guarded(name: str, records: Iterator[R]) -> Iterator[R | Problem]:
    """Yield records until a read error, then report it."""
    try:
        yield from records
    except unreadable() as error:
        yield Problem(where=name, what=f"read error: {error}")


def first_lines(piece: Piece, number: int) -> Iterator[Any]:
    """Decode the first lines of a file that are JSON objects."""
    with piece.open() as source:
        for line in islice(lines(source, piece.name, MOST_FIRST), number):
            if isinstance(line, Line) and line.data.startswith(b"{"):
                with suppress(Invalid):
                    yield decoded(line.data)


def is_lined(piece: Piece) -> bool:
    """Whether the first line of a file is a JSON object."""
    return next(first_lines(piece, 1), None) is not None


def each(piece: Piece, told: Told, within: str) -> Iterator[Raw | Problem]:
    """Items of a file: of an array, of the named array in an object, JSON lines, or a single value."""
    head = piece.head()
    with watched(piece, told) as source:
        if start_of(head).startswith(b"["):
            yield from members(source, piece.name, None)
        elif f'"{within}"'.encode() in head[:4096]:
            yield from members(source, piece.name, within)
        elif is_lined(piece):
            yield from objects(source, piece.name)
        else:
            yield alone(source, piece.name)


def named(source: IO[bytes], name: str) -> Iterator[tuple[str, str | None, Any | Problem]]:
    """Values of a document with place and member name. Null members are skipped."""
    for element in elements(source):
        place = f"{name} byte {element.at}"
        if isinstance(element, Fault):
            yield place, None, Problem(where=place, what=element.what)
            continue
        if element.data == b"null" and element.sole:
            continue
        try:
            yield place, element.name, decoded(element.data)
        except Invalid as error:
            yield place, element.name, Problem(where=place, what=error.message)


def members(source: IO[bytes], name: str, within: str | None) -> Iterator[Raw | Problem]:
    """Decoded elements of an array. A fault is reported and the next element follows."""
    number = -1
    for element in elements(source):
        if isinstance(element, Fault):
            yield Problem(where=f"{name} byte {element.at}", what=element.what)
            continue
        if element.name != within:
            continue
        number += 1
        try:
            yield f"{name}[{number}]", decoded(element.data)
        except Invalid as error:
            yield Problem(where=f"{name}[{number}] byte {element.at}", what=error.message)


def alone(source: IO[bytes], name: str, most: int = MOST_ELEMENT) -> Raw | Problem:
    """Decode a file that is a single JSON value."""
    data = source.read(most + 1)
    if len(data) > most:
        return Problem(where=name, what=f"single JSON value of more than {most} bytes")
    try:
        return name, decoded(data.removeprefix(b"\xef\xbb\xbf"))
    except Invalid as error:
        return Problem(where=name, what=error.message)


def entries(piece: Piece, told: Told, read: Callable[[str, dict[str, Any]], Iterator[Record]]) -> Iterator[Record]:
    """Apply a reader to every object of a JSON lines file; passes problems through."""
    with watched(piece, told) as source:
        for one in objects(source, piece.name):
            if isinstance(one, Problem):
                yield one
            else:
                yield from read(*one)
