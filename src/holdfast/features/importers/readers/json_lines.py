"""Reader of JSON lines, one line at a time, whatever its length."""

from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from holdfast.features.importers.model import Problem
from holdfast.features.importers.readers.json_elements import decode_json
from holdfast.kernel.errors import Invalid

MAX_LINE_BYTES = 64 << 20


class Line(NamedTuple):
    number: int
    data: bytes


def read_lines(source: IO[bytes], name: str, max_bytes: int = MAX_LINE_BYTES) -> Iterator[Line | Problem]:
    """Lines that are not blank. A line that is too long is reported and skipped without buffering."""
    number = 0
    while data := source.readline(max_bytes + 1):
        number += 1
        if len(data) > max_bytes and not data.endswith(b"\n"):
            size = len(data)
            while (rest := source.readline(1 << 20)) and not rest.endswith(b"\n"):
                size += len(rest)
            yield Problem(
                where=f"{name}:{number}", what=f"line has {size + len(rest)} bytes; the maximum is {max_bytes}"
            )
        elif data.strip():
            yield Line(number, data.removeprefix(b"\xef\xbb\xbf") if number == 1 else data)


def read_objects(source: IO[bytes], name: str) -> Iterator[tuple[str, dict[str, Any]] | Problem]:
    """JSON objects of a file with their places. Other lines are reported."""
    for line in read_lines(source, name):
        if isinstance(line, Problem):
            yield line
            continue
        where = f"{name}:{line.number}"
        try:
            found = decode_json(line.data)
        except Invalid as error:
            cut = "" if line.data.endswith(b"\n") else "the file ends within this line: "
            yield Problem(where=where, what=f"{cut}{error.message}")
            continue
        if isinstance(found, dict):
            yield where, found
        else:
            yield Problem(where=where, what="not a JSON object")
