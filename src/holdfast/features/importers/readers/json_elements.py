"""Split JSON of any size into elements or lines. At most one is in memory."""

import json
import re
from collections.abc import Iterator
from io import BytesIO
from typing import IO, Any, NamedTuple

import msgspec

from holdfast.features.importers.model import Problem
from holdfast.kernel.errors import Invalid

CHUNK = 1 << 18
MAX_ELEMENT_BYTES = 64 << 20
"""Bytes of one element: a conversation, message or row."""
MAX_DEPTH = 500

_SPACE = re.compile(rb"[ \t\r\n]*+")
_FLAT = re.compile(rb'(?:[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
"""Everything up to the next bracket or an unfinished string."""
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_SCALAR = re.compile(rb"[^,\]} \t\r\n]*+")


class Element(NamedTuple):
    """Element of the outermost array, or of a member of the outermost object."""

    name: str | None
    at: int
    """Byte offset."""
    data: bytes
    is_single: bool = False
    """The value of the member itself, not an element of its array."""


class Fault(NamedTuple):
    at: int
    what: str


class _UnexpectedEnd(Exception):
    """The file ends within a value."""


def decode_json(data: bytes) -> Any:
    """Decode an element. Strict first, then with the lenient standard parser."""
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise Invalid("nested too deeply") from None
    except UnicodeDecodeError as error:
        raise Invalid(f"not UTF-8 at byte {error.start}") from None
    except msgspec.DecodeError as error:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise Invalid(f"invalid JSON: {error}") from None


def read_elements(source: IO[bytes], max_bytes: int = MAX_ELEMENT_BYTES) -> Iterator[Element | Fault]:
    """Elements of a JSON array or of each member of an object, with faults where they occur."""
    text = _ByteScanner(source, max_bytes)
    try:
        yield from _read_outermost(text)
        if text.has_more():
            yield Fault(text.at, "data after the end of the JSON, not read")
    except _UnexpectedEnd:
        yield Fault(text.at, f"the file ends within the value that starts at byte {text.value_start}")


def _read_outermost(text: "_ByteScanner") -> Iterator[Element | Fault]:
    text.skip_bom()
    match text.peek():
        case b"[":
            text.skip_byte()
            yield from _read_array(text, None)
        case b"{":
            text.skip_byte()
            yield from _read_object(text)
        case _:
            yield Fault(text.at, "neither a JSON array nor an object")
            text.discard_rest()


def _read_array(text: "_ByteScanner", name: str | None) -> Iterator[Element | Fault]:
    while True:
        match text.peek():
            case b"]":
                return text.skip_byte()
            case b",":
                text.skip_byte()
            case b"}" | b":":
                yield Fault(text.at, "unexpected character")
                text.skip_byte()
            case _:
                yield text.read_value(name)


def _read_object(text: "_ByteScanner") -> Iterator[Element | Fault]:
    while True:
        sign = text.peek()
        if sign == b"}":
            return text.skip_byte()
        if sign != b'"':
            if sign != b",":
                yield Fault(text.at, "member name expected")
            text.skip_byte()
            continue
        name = _member_name(text.read_value(None))
        if text.peek() == b":":
            text.skip_byte()
        if text.peek() == b"[":
            text.skip_byte()
            yield from _read_array(text, name)
        else:
            found = text.read_value(name)
            yield found._replace(is_single=True) if isinstance(found, Element) else found


def _member_name(key: Element | Fault) -> str:
    """Decode a member name; empty if it is invalid."""
    try:
        return str(decode_json(key.data)) if isinstance(key, Element) else ""
    except Invalid:
        return ""


class _ByteScanner:
    """Scanner over a byte stream that buffers one chunk."""

    def __init__(self, source: IO[bytes], max_bytes: int) -> None:
        self._source = source
        self._max_bytes = max_bytes
        self._buffer = b""
        self._position = 0
        self._buffer_start = 0
        self.value_start = 0

    @property
    def at(self) -> int:
        return self._buffer_start + self._position

    def skip_bom(self) -> None:
        """Skip a UTF-8 byte order mark."""
        self._read_more()
        if self._buffer.startswith(b"\xef\xbb\xbf"):
            self._position = 3

    def peek(self) -> bytes:
        """The next byte that is not whitespace."""
        while True:
            found = _SPACE.match(self._buffer, self._position)
            assert found is not None
            self._position = found.end()
            if self._position < len(self._buffer):
                return self._buffer[self._position : self._position + 1]
            self.value_start = self.at
            self._require_more()

    def has_more(self) -> bool:
        """Whether anything but whitespace follows."""
        try:
            return bool(self.peek())
        except _UnexpectedEnd:
            return False

    def discard_rest(self) -> None:
        """Discard the rest of the stream."""
        self._buffer, self._source = b"", BytesIO()

    def skip_byte(self) -> None:
        self._position += 1

    def read_value(self, name: str | None) -> Element | Fault:
        """Read the value at this position, or its fault. Scanning continues after it either way."""
        self.value_start = start = self.at
        size, deepest, pieces = 0, 0, list[bytes]()
        for piece, depth in self._read_chunks():
            size, deepest = size + len(piece), max(deepest, depth)
            if size > self._max_bytes or deepest > MAX_DEPTH:
                pieces.clear()
            else:
                pieces.append(piece)
        if deepest > MAX_DEPTH:
            return Fault(start, f"nested {deepest} levels deep; the maximum is {MAX_DEPTH}")
        if size > self._max_bytes:
            return Fault(start, f"has {size} bytes; the maximum is {self._max_bytes}")
        return Element(name, start, b"".join(pieces))

    def _read_chunks(self) -> Iterator[tuple[bytes, int]]:
        """Bytes of a value in chunks, each with the depth reached so far."""
        sign = self._buffer[self._position : self._position + 1]
        if sign == b'"':
            yield self._consume(self._position + 1), 0
            yield from self._read_string(0)
        elif sign in b"{[":
            yield from self._read_nested()
        else:
            yield from self._read_scalar()

    def _read_scalar(self) -> Iterator[tuple[bytes, int]]:
        while True:
            found = _SCALAR.match(self._buffer, self._position)
            assert found is not None
            ends = found.end() < len(self._buffer)
            yield self._consume(found.end()), 0
            if ends or not self._read_more():
                return

    def _read_nested(self) -> Iterator[tuple[bytes, int]]:
        depth, deepest, at = 0, 0, self._position
        while True:
            found = _FLAT.match(self._buffer, at)
            assert found is not None
            at = found.end()
            if at == len(self._buffer):
                yield self._consume(at), deepest
                self._require_more()
                at = 0
                continue
            sign = self._buffer[at]
            at += 1
            if sign == 0x22:
                yield self._consume(at), deepest
                yield from self._read_string(deepest)
                at = self._position
                continue
            depth += 1 if sign in b"{[" else -1
            deepest = max(deepest, depth)
            if depth == 0:
                yield self._consume(at), deepest
                return

    def _read_string(self, depth: int) -> Iterator[tuple[bytes, int]]:
        """The rest of a string, which may exceed the buffer."""
        while True:
            found = _IN_STRING.match(self._buffer, self._position)
            assert found is not None
            at = found.end()
            if at < len(self._buffer) and self._buffer[at] == 0x22:
                yield self._consume(at + 1), depth
                return
            left = self._buffer[at:]
            yield self._consume(at), depth
            self._require_more(left)

    def _consume(self, upto: int) -> bytes:
        data = self._buffer[self._position : upto]
        self._position = upto
        return data

    def _require_more(self, left: bytes = b"") -> None:
        if not self._read_more(left):
            raise _UnexpectedEnd

    def _read_more(self, left: bytes = b"") -> bool:
        """Read the next chunk and append it to the unread bytes."""
        read = self._source.read(CHUNK)
        self._buffer_start += len(self._buffer) - len(left)
        self._buffer, self._position = left + read, 0
        return bool(read)


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
