"""JSON of any size, one element at a time: the bytes of each, found without holding more than one of them."""

import re
from collections.abc import Iterator
from io import BytesIO
from typing import IO, Any, NamedTuple

import msgspec

from holdfast.kernel.errors import Invalid

CHUNK = 1 << 18
MOST_ELEMENT = 64 << 20
"""Bytes of one conversation, message or row."""
MOST_DEPTH = 500

_SPACE = re.compile(rb"[ \t\r\n]*+")
_FLAT = re.compile(rb'(?:[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
"""Everything up to the next bracket, or to a string that has not come to its end."""
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_SCALAR = re.compile(rb"[^,\]} \t\r\n]*+")


class Element(NamedTuple):
    """An element of an array, or of the one under a name of the outermost object."""

    name: str | None
    at: int
    """The byte at which it begins."""
    data: bytes
    sole: bool = False
    """Whether it is all that there is under its name, and not one of an array."""


class Fault(NamedTuple):
    at: int
    what: str


class _Ended(Exception):
    """The file is over, and something in it is not."""


def decoded(data: bytes) -> Any:
    """What an element says. Strictly at first; what only other programs accept is accepted as well."""
    import json

    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise Invalid("is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise Invalid(f"is not UTF-8 at its byte {error.start}") from None
    except msgspec.DecodeError as error:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise Invalid(f"is no JSON: {error}") from None


def elements(source: IO[bytes], most: int = MOST_ELEMENT) -> Iterator[Element | Fault]:
    """The elements of a JSON array, or of each member of an object; what is wrong is told where it stands."""
    text = _Text(source, most)
    try:
        yield from _document(text)
    except _Ended:
        yield Fault(text.at, f"the file ends here, in the middle: what began at byte {text.begun} is not whole")


def _document(text: "_Text") -> Iterator[Element | Fault]:
    """What a document holds; what follows where it has ended is told of."""
    yield from _outermost(text)
    if text.goes_on():
        yield Fault(text.at, "more follows where the JSON has ended, and was not read")


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
            yield Fault(text.at, "neither a JSON array nor an object begins here")
            text.finish()


def _array(text: "_Text", name: str | None) -> Iterator[Element | Fault]:
    while True:
        match text.peek():
            case b"]":
                return text.step()
            case b",":
                text.step()
            case b"}" | b":":
                yield Fault(text.at, "a sign that does not belong here")
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
                yield Fault(text.at, "a name is expected here")
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
    """The name of a member; of one that cannot be read, none that anybody looks for."""
    try:
        return str(decoded(key.data)) if isinstance(key, Element) else ""
    except Invalid:
        return ""


class _Text:
    """A place in a stream of bytes, of which one chunk is held."""

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
        """A byte order mark of UTF-8 is no part of the text."""
        self._more()
        if self._held.startswith(b"\xef\xbb\xbf"):
            self._from = 3

    def peek(self) -> bytes:
        """The next sign that is not blank."""
        while True:
            found = _SPACE.match(self._held, self._from)
            assert found is not None
            self._from = found.end()
            if self._from < len(self._held):
                return self._held[self._from : self._from + 1]
            self.begun = self.at
            self._must_have_more()

    def goes_on(self) -> bool:
        """Whether anything follows that is not blank."""
        try:
            return bool(self.peek())
        except _Ended:
            return False

    def finish(self) -> None:
        """Leave the rest."""
        self._held, self._source = b"", BytesIO()

    def step(self) -> None:
        self._from += 1

    def value(self, name: str | None) -> Element | Fault:
        """The value that begins here, or what is wrong with it; what comes after it can be read either way."""
        self.begun = begun = self.at
        size, deepest, pieces = 0, 0, list[bytes]()
        for piece, depth in self._pieces():
            size, deepest = size + len(piece), max(deepest, depth)
            if size > self._most or deepest > MOST_DEPTH:
                pieces.clear()
            else:
                pieces.append(piece)
        if deepest > MOST_DEPTH:
            return Fault(begun, f"is nested {deepest} levels deep; at most {MOST_DEPTH} are read")
        if size > self._most:
            return Fault(begun, f"has {size} bytes; at most {self._most} are read at once")
        return Element(name, begun, b"".join(pieces))

    def _pieces(self) -> Iterator[tuple[bytes, int]]:
        """The bytes of a value as they are held, each time with how deep it went."""
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
        """The rest of a string, which may be longer than what is held."""
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
        taken = self._held[self._from : upto]
        self._from = upto
        return taken

    def _must_have_more(self, left: bytes = b"") -> None:
        if not self._more(left):
            raise _Ended

    def _more(self, left: bytes = b"") -> bool:
        """The next chunk, behind what is left of the one before."""
        read = self._source.read(CHUNK)
        self._base += len(self._held) - len(left)
        self._held, self._from = left + read, 0
        return bool(read)
