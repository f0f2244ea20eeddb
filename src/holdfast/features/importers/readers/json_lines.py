"""Files of one JSON object a line, read a line at a time however long a line is."""

from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from holdfast.features.importers.model import Problem
from holdfast.features.importers.readers.json_elements import decoded
from holdfast.kernel.errors import Invalid

MOST_LINE = 64 << 20


class Line(NamedTuple):
    number: int
    data: bytes


def lines(source: IO[bytes], name: str, most: int = MOST_LINE) -> Iterator[Line | Problem]:
    """Every line that is not blank; one that is too long is told and passed over without being held."""
    number = 0
    while data := source.readline(most + 1):
        number += 1
        if len(data) > most and not data.endswith(b"\n"):
            size = len(data)
            while (rest := source.readline(1 << 20)) and not rest.endswith(b"\n"):
                size += len(rest)
            yield Problem(
                where=f"{name}:{number}", what=f"the line has {size + len(rest)} bytes; at most {most} are read"
            )
        elif data.strip():
            yield Line(number, data.removeprefix(b"\xef\xbb\xbf") if number == 1 else data)


def objects(source: IO[bytes], name: str) -> Iterator[tuple[str, dict[str, Any]] | Problem]:
    """Every JSON object of a file with its place; a line that is none is told."""
    for line in lines(source, name):
        if isinstance(line, Problem):
            yield line
            continue
        where = f"{name}:{line.number}"
        try:
            found = decoded(line.data)
        except Invalid as error:
            cut = "" if line.data.endswith(b"\n") else "the file ends in the middle of this line; it "
            yield Problem(where=where, what=f"{cut}{error.message}")
            continue
        if isinstance(found, dict):
            yield where, found
        else:
            yield Problem(where=where, what="is no JSON object")
