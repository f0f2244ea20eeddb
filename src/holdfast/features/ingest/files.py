"""Read documents and pipelines from local files or standard input, in the encoding they declare."""

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from holdfast.features.ingest.pipeline import MAX_BYTES as MAX_PIPELINE_BYTES
from holdfast.features.ingest.pipeline import Pipeline, list_builtin_pipelines, parse_pipeline_text
from holdfast.kernel.errors import Invalid
from holdfast.kernel.local_files import local_path

MAX_BYTES = 16 * 1024 * 1024
"""Maximum size of a document in bytes. It is held in memory and written in one transaction, blocking other writers."""
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""The UTF-8 mark is kept in the text, so that byte positions match the file."""
STDIN = "-"


class Document(NamedTuple):
    """A document read from a file or standard input."""

    text: str
    uri: str | None
    """File URI; None for standard input."""
    name: str


def read_document(name: str) -> Document:
    """Read a document from a path, or from standard input (`-`)."""
    if name == STDIN:
        if sys.stdin is None:
            raise Invalid("file: standard input is not available")
        return Document(
            decode_text(_read_bounded(sys.stdin.buffer, "standard input"), "standard input"), None, "standard input"
        )
    path = local_path(name)
    with _open_file(path, "file") as file:
        content = _read_bounded(file, name)
    return Document(decode_text(content, name), path.as_uri(), path.name)


@contextmanager
def _open_file(path: Path, field: str) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}", fields=[field]) from None


def _read_bounded(file: BinaryIO, name: str) -> bytes:
    content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise Invalid(f"{name} is larger than {MAX_BYTES >> 20} MiB: split it and ingest the parts", fields=["file"])
    return content


def decode_text(content: bytes, name: str) -> str:
    """Decode a document by its byte order mark, else as UTF-8. Errors name the byte and the line."""
    mark, encoding = next((found for found in _BYTE_ORDER_MARKS if content.startswith(found[0])), (b"", "utf-8"))
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
    return check_text(text, name)


def check_text(text: str, name: str = "content") -> str:
    """Return the text; raise if it contains NUL."""
    if (at := text.find("\x00")) >= 0:
        before = text[:at]
        raise Invalid(
            f"{name} contains NUL at byte {len(before.encode())} (line {before.count(chr(10)) + 1}): not a text file",
            fields=["file" if name != "content" else name],
        )
    return text


def read_pipeline(name: str) -> Pipeline:
    """Read a pipeline from a TOML or JSON file."""
    path = local_path(name)
    if not os.path.exists(path):  # Path.exists raises for names that no file can have
        names = ", ".join(list_builtin_pipelines())
        raise Invalid(f"pipeline: {name!r} is neither a file nor a built-in pipeline ({names})", fields=["pipeline"])
    with _open_file(path, "pipeline") as file:
        content = file.read(MAX_PIPELINE_BYTES + 1)
    return parse_pipeline_text(decode_text(content, name), path.stem)
