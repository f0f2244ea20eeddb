"""What readers share: who is told how far they are, and the ways in which exports hold their conversations."""

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
"""Lines or members of a file by which its format is told."""
MOST_FIRST = 8 << 20
"""Bytes of a line by which a format is told."""
Told = Callable[[int], None]
"""Told how many bytes were read since it was told last."""
R = TypeVar("R")
Raw = tuple[str, Any]
"""Where something stands, and what it says."""


def start_of(head: bytes) -> bytes:
    """The beginning of a file without what does not count."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()


def unreadable() -> tuple[type[Exception], ...]:
    """What happens where a disk or an archive gives out."""
    import zipfile
    import zlib

    return OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError


def guarded(name: str, records: Iterator[R]) -> Iterator[R | Problem]:
    """Records up to where the disk or an archive gives out, and then what happened."""
    try:
        yield from records
    except unreadable() as error:
        yield Problem(where=name, what=f"cannot be read on: {error}")


def first_lines(piece: Piece, number: int) -> Iterator[Any]:
    """What the first lines of a file say that are JSON objects."""
    with piece.open() as source:
        for line in islice(lines(source, piece.name, MOST_FIRST), number):
            if isinstance(line, Line) and line.data.startswith(b"{"):
                with suppress(Invalid):
                    yield decoded(line.data)


def is_lined(piece: Piece) -> bool:
    """Whether a file has a JSON object on each line."""
    return next(first_lines(piece, 1), None) is not None


def each(piece: Piece, told: Told, within: str) -> Iterator[Raw | Problem]:
    """The things that a file holds: of an array, of the array of that name in an object, on lines, or one alone."""
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
    """Everything in a document: where it stands, the name of the array or member that it is of, and what it says.

    A member that is null is not there.
    """
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
    """The elements of an array, each decoded; what is wrong with one is told, and the next follows."""
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
    """The one thing that a file is."""
    data = source.read(most + 1)
    if len(data) > most:
        return Problem(where=name, what=f"is one JSON value of more than {most} bytes")
    try:
        return name, decoded(data.removeprefix(b"\xef\xbb\xbf"))
    except Invalid as error:
        return Problem(where=name, what=error.message)


def entries(piece: Piece, told: Told, read: Callable[[str, dict[str, Any]], Iterator[Record]]) -> Iterator[Record]:
    """What a reader makes of every object of a file, and what is wrong with lines."""
    with watched(piece, told) as source:
        for one in objects(source, piece.name):
            if isinstance(one, Problem):
                yield one
            else:
                yield from read(*one)
