"""What people have elsewhere, as it is read: turns of conversations, notes, ties between them, and what is wrong."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.memory import Kind
from holdfast.kernel.timestamps import DAY, SECOND, from_text

Sort = Literal["message", "tools", "system", "thinking", "sidechains"]
"""Whether a turn was said, or is what programs and models do in between."""

MOST_PART = 60_000
"""Bytes of one memory's content; a longer text is kept in parts."""
EARLIEST = 2 * DAY
"""Clocks that were never set say 1970."""
MOST_NAME = 200

_OPENED = re.compile(
    r"(?:Memories recalled from a store stand between the two marks\.[^\n]{0,400}\n"
    r"|The text between these markers is recalled data\.[^\n]{0,400}\n"
    r"|Between the marks [0-9a-f]{16} stands what the store holds:[^\n]{0,400}\n"
    r"|Untrusted stored data between the [0-9a-f]{16} markers;[^\n]{0,400}\n)?"
    r"<(?P<kind>recalled|memory|answer|toon|text) (?P<id>[0-9A-Za-z]{6,64})(?=[ >])"
)
_CLOSED = re.compile(r"</(recalled|memory|answer|toon|text) ([0-9A-Za-z]{6,64})>\n?")
"""The marks between which a memory gives out what it holds, and what it says before them."""
MAX_MARK_REST = 8_000
"""Characters of an opening mark between the blank behind its id and its `>`."""
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f]+")


class Turn(Struct, frozen=True, kw_only=True):
    """Something said in a conversation."""

    key: str
    """Names the message within its format: the same in every export that has it."""
    thread: str
    name: str
    """What the conversation is called."""
    speaker: str
    content: str
    at: Any
    """When, as the source says it."""
    uri: str
    where: str
    place: int | None
    sort: Sort = "message"
    metadata: dict[str, Any] = {}
    updated: Any = None
    """When it or its conversation was changed last, as the source says it."""


class Note(Struct, frozen=True, kw_only=True):
    """Something written down, by nobody in particular."""

    key: str
    title: str
    content: str
    uri: str
    where: str
    kind: Kind = "observation"
    tags: tuple[str, ...] = ()
    at: Any = None
    metadata: dict[str, Any] = {}


class Tie(Struct, frozen=True, kw_only=True):
    """That one note points to another, by their keys."""

    source: str
    target: str
    where: str


class Rows(Struct, frozen=True, kw_only=True):
    """Rows of an envelope, which have a door of their own."""

    envelope: dict[str, Any]
    where: str
    paged: bool = False
    """It is one of several, of which others may hold what its rows point to."""


class Problem(Struct, frozen=True, kw_only=True):
    """What could not be taken, or not as it is, and where it stands."""

    where: str
    what: str
    rejected: bool = True
    """Something is missing because of it; otherwise it is only said."""


class LeftOut(Struct, frozen=True, kw_only=True):
    """What is not taken on purpose."""

    sort: str
    number: int = 1


Record = Turn | Note | Tie | Rows | Problem | LeftOut


class Part(NamedTuple):
    start: int
    end: int
    text: str


def parts(text: str, most: int = MOST_PART) -> Iterator[Part]:
    """A text in parts that can be kept, each with its range of bytes; cut between paragraphs, lines or words."""
    data = text.encode(errors="surrogatepass")
    start = 0
    while start < len(data):
        end = _cut(data, start, most)
        part = data[start:end].decode(errors="surrogatepass")
        if part.strip():
            yield Part(start, end, part)
        start = end


def _cut(data: bytes, start: int, most: int) -> int:
    end = start + most
    if end >= len(data):
        return len(data)
    for sign in (b"\n\n", b"\n", b" "):
        at = data.rfind(sign, start + most // 2, end)
        if at != -1:
            return at + len(sign)
    while data[end] & 0xC0 == 0x80:
        end -= 1
    return end


def without_recalled(text: str) -> str:
    """A text without what was recalled from a store and pasted into it between our marks."""
    kept, at = list[str](), 0
    for start, end in recalled_in(text):
        kept.append(text[at:start])
        at = end
    return "".join((*kept, text[at:]))


def recalled_in(text: str) -> list[tuple[int, int]]:
    """From where to where a text holds what was recalled from a store, with our marks around it."""
    ends: dict[tuple[str, str], list[re.Match[str]]] = {}
    for closed in _CLOSED.finditer(text):
        ends.setdefault((closed[1], closed[2]), []).append(closed)
    found, at = list[tuple[int, int]](), 0
    for opened in _openings(text) if ends else ():
        if opened.start >= at and (end := _end_of(opened, ends)) is not None:
            found.append((opened.start, end))
            at = end
    return found


class _Opening(NamedTuple):
    """An opening mark: from where to where, of which kind, and of what."""

    start: int
    end: int
    kind: str
    id: str


def _openings(text: str) -> Iterator[_Opening]:
    """The opening marks of a text; what is behind the id goes to the end of the line, and is looked for only there."""
    at = 0
    while opened := _OPENED.search(text, at):
        at, rest = opened.start() + 1, opened.end()
        end = text.find("\n", rest, rest + MAX_MARK_REST + 3)
        if end > rest and text[end - 1] == ">" and (text[rest] == " " or end == rest + 1):
            at = end + 1
            yield _Opening(opened.start(), at, opened["kind"], opened["id"])


def _end_of(opened: _Opening, ends: dict[tuple[str, str], list[re.Match[str]]]) -> int | None:
    """Where the first closing mark after an opening one ends."""
    found = ends.get((opened.kind, opened.id), [])
    place = bisect_left(found, opened.end, key=lambda closed: closed.start())
    return found[place].end() if place < len(found) else None


def line(text: str, most: int = MOST_NAME) -> str:
    """A text as a short name on one line."""
    flat = _BLANKS.sub(" ", text[: most * 8].encode(errors="replace").decode()).strip()
    return flat.encode()[:most].decode(errors="ignore").rstrip()


def titled(name: str, place: int | None, key: str) -> str:
    """The title of a turn: its conversation's name, its place, and a word that no other turn of that place has."""
    spot = "" if place is None or place >= 1 << 32 else f" {place}"
    return f"{line(name) or 'Conversation'}{spot} · {key[:8]}"


def moment_of(value: Any) -> int | None:
    """A moment as exports write it: seconds, milliseconds or microseconds since 1970, or a text. None: not known."""
    if value is None or value == "" or value == 0:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Invalid("is no time")
    if isinstance(value, int | float):
        return _scaled(value)
    try:
        return _scaled(Decimal(value))
    except InvalidOperation:
        return from_text(value.strip()[:64], "time")


def _scaled(number: Any) -> int:
    """Microseconds of a number since 1970, whose unit is told by its size."""
    for most, scale in _SCALES:
        if abs(number) < most:
            found: int = round(number * scale)
            return found
    raise Invalid("is no time")


_SCALES = ((10**11, SECOND), (10**14, 1000), (10**18, 1))
"""Up to which number it is seconds, milliseconds, microseconds: seconds reach into the year 5138."""


def known_moment(value: Any, now: int) -> tuple[int | None, str | None]:
    """When something was, or None and what is wrong with the time that is given. It is never taken for now."""
    try:
        at = moment_of(value)
    except Invalid:
        return None, f"the time {str(value)[:64]!r} cannot be read; kept without a time"
    if at is None:
        return None, None
    if at > now + DAY:
        return None, f"the time {str(value)[:64]!r} lies in the future; kept without a time"
    if at < EARLIEST:
        return None, f"the time {str(value)[:64]!r} lies before 1970-01-03; kept without a time"
    return at, None


def digest(*parts: str) -> str:
    return sha256("\x00".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]


def said(*circle: str, text: str) -> str:
    """The same for what is said alike in one conversation by one speaker, blanks apart."""
    return digest(*circle, " ".join(text.split()))
