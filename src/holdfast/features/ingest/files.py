"""Read documents and pipelines from local files or standard input, in the encoding they declare."""

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from holdfast.features.admin.backup import local_path
from holdfast.features.ingest.builtin_pipelines import built_in
from holdfast.features.ingest.pipeline import MOST_BYTES as MOST_PIPELINE
from holdfast.features.ingest.pipeline import Pipeline, from_text
from holdfast.kernel.errors import Invalid

MOST = 16 * 1024 * 1024
"""Maximum size of a document in bytes. It is held in memory and written in one transaction, blocking other writers."""
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""The UTF-8 mark is kept in the text, so that byte positions match the file."""
STDIN = "-"


class File(NamedTuple):
    """A document read from a file or standard input."""

    text: str
    uri: str | None
    """File URI; None for standard input."""
    name: str


def read(name: str) -> File:
    """Read a document from a path, or from standard input (`-`)."""
    if name == STDIN:
        if sys.stdin is None:
            raise Invalid("file: standard input is not available")
        return File(decoded(_bounded(sys.stdin.buffer, "standard input"), "standard input"), None, "standard input")
    path = local_path(name)
    with _opened(path, "file") as file:
        content = _bounded(file, name)
    return File(decoded(content, name), path.as_uri(), path.name)


@contextmanager
def _opened(path: Path, field: str) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}", fields=[field]) from None


def _bounded(file: BinaryIO, name: str) -> bytes:
    content = file.read(MOST + 1)
    if len(content) > MOST:
        raise Invalid(f"{name} is larger than {MOST >> 20} MiB: split it and ingest the parts", fields=["file"])
    return content


def decoded(content: bytes, name: str) -> str:
    """Decode a document by its byte order mark, else as UTF-8. Errors name the byte and the line."""
    mark, encoding = next((found for found in _MARKS if content.startswith(found[0])), (b"", "utf-8"))
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        at = len(mark) + error.start
        line = content.count(b"\n", 0, at) + 1
        raise Invalid(
            f"{name} is not {encoding.upper()} at byte {at} (line {line}): save it as UTF-8, or add a byte order mark",
            fields=["file"],
            offset=at,
        ) from None
    return checked(text, name)


def checked(text: str, name: str = "content") -> str:
    """Return the text; raise if it contains NUL."""
    if (at := text.find("\x00")) >= 0:
        before = text[:at]
        raise Invalid(
            f"{name} contains NUL at byte {len(before.encode())} (line {before.count(chr(10)) + 1}): not a text file",
            fields=["file" if name != "content" else name],
        )
    return text


def pipeline(name: str) -> Pipeline:
    """Read a pipeline from a TOML or JSON file."""
    path = local_path(name)
    if not os.path.exists(path):  # Path.exists raises for names that no file can have
        names = ", ".join(built_in())
        raise Invalid(f"pipeline: {name!r} is neither a file nor a built-in pipeline ({names})", fields=["pipeline"])
    with _opened(path, "pipeline") as file:
        content = file.read(MOST_PIPELINE + 1)
    return from_text(decoded(content, name), path.stem)
