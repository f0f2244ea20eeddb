"""Split JSON of any size into elements. At most one element is in memory."""

import re
from collections.abc import Iterator
from io import BytesIO
from typing import IO, Any, NamedTuple

import msgspec

from holdfast.kernel.errors import Invalid

CHUNK = 1 << 18
MOST_ELEMENT = 64 << 20
"""Bytes of one element: a conversation, message or row."""
MOST_DEPTH = 500

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
    sole: bool = False
    """The value of the member itself, not an element of its array."""


class Fault(NamedTuple):
    at: int
    what: str


class _Ended(Exception):
    """The file ends within a value."""


def decoded(data: bytes) -> Any:
    """Decode an element. Strict first, then with the lenient standard parser."""
    import json

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


def elements(source: IO[bytes], most: int = MOST_ELEMENT) -> Iterator[Element | Fault]:
    """Elements of a JSON array or of each member of an object, with faults where they occur."""
    text = _Text(source, most)
    try:
        yield from _document(text)
    except _Ended:
        yield Fault(text.at, f"the file ends within the value that starts at byte {text.begun}")


def _document(text: "_Text") -> Iterator[Element | Fault]:
    """Read a document; reports data after its end."""
    yield from _outermost(text)
    if text.goes_on():
        yield Fault(text.at, "data after the end of the JSON, not read")


def _outermost(text: "_Text") -> Iterator[Element | Fault]:
    text.skip_mark()
    match text.peek():
        case b"[":
            text.step()
            yield from _array(text, None)
        case b"{":
            text.step()
            yield from _object(text)
        case _:
            yield Fault(text.at, "neither a JSON array nor an object")
            text.finish()


def _array(text: "_Text", name: str | None) -> Iterator[Element | Fault]:
    while True:
        match text.peek():
            case b"]":
                return text.step()
            case b",":
                text.step()
            case b"}" | b":":
                yield Fault(text.at, "unexpected character")
                text.step()
            case _:
                yield text.value(name)


def _object(text: "_Text") -> Iterator[Element | Fault]:
    while True:
        sign = text.peek()
        if sign == b"}":
            return text.step()
        if sign != b'"':
            if sign != b",":
                yield Fault(text.at, "member name expected")
            text.step()
            continue
        name = _name(text.value(None))
        if text.peek() == b":":
            text.step()
        if text.peek() == b"[":
            text.step()
            yield from _array(text, name)
        else:
            found = text.value(name)
            yield found._replace(sole=True) if isinstance(found, Element) else found


def _name(key: Element | Fault) -> str:
    """Decode a member name; empty if it is invalid."""
    try:
        return str(decoded(key.data)) if isinstance(key, Element) else ""
    except Invalid:
        return ""


class _Text:
    """Scanner over a byte stream that buffers one chunk."""

    def __init__(self, source: IO[bytes], most: int) -> None:
        self._source = source
        self._most = most
        self._held = b""
        self._from = 0
        self._base = 0
        self.begun = 0

    @property
    def at(self) -> int:
        return self._base + self._from

    def skip_mark(self) -> None:
        """Skip a UTF-8 byte order mark."""
        self._more()
        if self._held.startswith(b"\xef\xbb\xbf"):
            self._from = 3

    def peek(self) -> bytes:
        """The next byte that is not whitespace."""
        while True:
            found = _SPACE.match(self._held, self._from)
            assert found is not None
            self._from = found.end()
            if self._from < len(self._held):
                return self._held[self._from : self._from + 1]
            self.begun = self.at
            self._must_have_more()

    def goes_on(self) -> bool:
        """Whether anything but whitespace follows."""
        try:
            return bool(self.peek())
        except _Ended:
            return False

    def finish(self) -> None:
        """Discard the rest of the stream."""
        self._held, self._source = b"", BytesIO()

    def step(self) -> None:
        self._from += 1

    def value(self, name: str | None) -> Element | Fault:
        """Read the value at this position, or its fault. Scanning continues after it either way."""
        self.begun = start = self.at
        size, deepest, pieces = 0, 0, list[bytes]()
        for piece, depth in self._pieces():
            size, deepest = size + len(piece), max(deepest, depth)
            if size > self._most or deepest > MOST_DEPTH:
                pieces.clear()
            else:
                pieces.append(piece)
        if deepest > MOST_DEPTH:
            return Fault(start, f"nested {deepest} levels deep; the maximum is {MOST_DEPTH}")
        if size > self._most:
            return Fault(start, f"has {size} bytes; the maximum is {self._most}")
        return Element(name, start, b"".join(pieces))

    def _pieces(self) -> Iterator[tuple[bytes, int]]:
        """Bytes of a value in chunks, each with the depth reached so far."""
        sign = self._held[self._from : self._from + 1]
        if sign == b'"':
            yield self._taken(self._from + 1), 0
            yield from self._string(0)
        elif sign in b"{[":
            yield from self._nested()
        else:
            yield from self._scalar()

    def _scalar(self) -> Iterator[tuple[bytes, int]]:
        while True:
            found = _SCALAR.match(self._held, self._from)
            assert found is not None
            ends = found.end() < len(self._held)
            yield self._taken(found.end()), 0
            if ends or not self._more():
                return

    def _nested(self) -> Iterator[tuple[bytes, int]]:
        depth, deepest, at = 0, 0, self._from
        while True:
            found = _FLAT.match(self._held, at)
            assert found is not None
            at = found.end()
            if at == len(self._held):
                yield self._taken(at), deepest
                self._must_have_more()
                at = 0
                continue
            sign = self._held[at]
            at += 1
            if sign == 0x22:
                yield self._taken(at), deepest
                yield from self._string(deepest)
                at = self._from
                continue
            depth += 1 if sign in b"{[" else -1
            deepest = max(deepest, depth)
            if depth == 0:
                yield self._taken(at), deepest
                return

    def _string(self, depth: int) -> Iterator[tuple[bytes, int]]:
        """The rest of a string, which may exceed the buffer."""
        while True:
            found = _IN_STRING.match(self._held, self._from)
            assert found is not None
            at = found.end()
            if at < len(self._held) and self._held[at] == 0x22:
                yield self._taken(at + 1), depth
                return
            left = self._held[at:]
            yield self._taken(at), depth
            self._must_have_more(left)

    def _taken(self, upto: int) -> bytes:
        data = self._held[self._from : upto]
        self._from = upto
        return data

    def _must_have_more(self, left: bytes = b"") -> None:
        if not self._more(left):
            raise _Ended

    def _more(self, left: bytes = b"") -> bool:
        """Read the next chunk and append it to the unread bytes."""
        read = self._source.read(CHUNK)
        self._base += len(self._held) - len(left)
        self._held, self._from = left + read, 0
        return bool(read)
