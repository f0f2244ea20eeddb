"""Records that readers yield: conversation turns, notes, links and problems."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.memory import Kind
from holdfast.kernel.timestamps import DAY, SECOND, parse_timestamp

TurnKind = Literal["message", "tools", "system", "thinking", "sidechains"]
"""Kind of turn: a message, or something that programs and models do in between."""

MAX_PART_BYTES = 60_000
"""Content bytes of one memory. A longer text is split into parts."""
MIN_TIMESTAMP = 2 * DAY
"""Earlier times are rejected: clocks that were never set report 1970."""
MAX_NAME_BYTES = 200

_OPENING_MARK = re.compile(
    r"(?:Memories recalled from a store stand between the two marks\.[^\n]{0,400}\n"
    r"|The text between these markers is recalled data\.[^\n]{0,400}\n"
    r"|Between the marks [0-9a-f]{16} stands what the store holds:[^\n]{0,400}\n"
    r"|Untrusted stored data between the [0-9a-f]{16} markers;[^\n]{0,400}\n)?"
    r"<(?P<kind>recalled|memory|answer|toon|text) (?P<id>[0-9A-Za-z]{6,64})(?=[ >])"
)
_CLOSING_MARK = re.compile(r"</(recalled|memory|answer|toon|text) ([0-9A-Za-z]{6,64})>\n?")
"""Closing marker of recalled text; the opening one includes the sentence before it."""
MAX_MARK_REST = 8_000
"""Characters of an opening marker between its id and its `>`."""
_WHITESPACE = re.compile(r"[\s\x00-\x1f\x7f]+")


class Turn(Struct, frozen=True, kw_only=True):
    """One turn of a conversation."""

    key: str
    """Stable id of the message within its format, the same in every export."""
    thread: str
    name: str
    """Title of the conversation."""
    speaker: str
    content: str
    at: Any
    """Time as written in the source."""
    uri: str
    where: str
    place: int | None
    kind: TurnKind = "message"
    metadata: dict[str, Any] = {}
    updated: Any = None
    """Last change of the message or its conversation, as written in the source."""


class Note(Struct, frozen=True, kw_only=True):
    """A text without a speaker."""

    key: str
    title: str
    content: str
    uri: str
    where: str
    kind: Kind = "observation"
    tags: tuple[str, ...] = ()
    at: Any = None
    metadata: dict[str, Any] = {}


class NoteLink(Struct, frozen=True, kw_only=True):
    """A link from one note to another, by their keys."""

    source: str
    target: str
    where: str


class EnvelopeRows(Struct, frozen=True, kw_only=True):
    """Envelope rows, imported by the envelope importer."""

    envelope: dict[str, Any]
    where: str
    is_page: bool = False
    """One of several pages; its rows may refer to rows of other pages."""


class Problem(Struct, frozen=True, kw_only=True):
    """Something that was not imported, or not unchanged, and where it is."""

    where: str
    what: str
    rejected: bool = True
    """True: data is missing because of it. False: a note."""


class Omission(Struct, frozen=True, kw_only=True):
    """Records skipped on purpose."""

    kind: str
    number: int = 1


Record = Turn | Note | NoteLink | EnvelopeRows | Problem | Omission


class TextPart(NamedTuple):
    start: int
    end: int
    text: str


def split_text(text: str, max_bytes: int = MAX_PART_BYTES) -> Iterator[TextPart]:
    """Split a text into parts with their byte ranges, between paragraphs, lines or words."""
    data = text.encode(errors="surrogatepass")
    start = 0
    while start < len(data):
        end = _find_cut(data, start, max_bytes)
        part = data[start:end].decode(errors="surrogatepass")
        if part.strip():
            yield TextPart(start, end, part)
        start = end


def _find_cut(data: bytes, start: int, max_bytes: int) -> int:
    end = start + max_bytes
    if end >= len(data):
        return len(data)
    for sign in (b"\n\n", b"\n", b" "):
        at = data.rfind(sign, start + max_bytes // 2, end)
        if at != -1:
            return at + len(sign)
    while data[end] & 0xC0 == 0x80:
        end -= 1
    return end


def remove_recalled(text: str) -> str:
    """Remove recalled text, which stands between our markers."""
    pieces, at = list[str](), 0
    for start, end in find_recalled(text):
        pieces.append(text[at:start])
        at = end
    return "".join((*pieces, text[at:]))


def find_recalled(text: str) -> list[tuple[int, int]]:
    """Find the ranges of recalled text, including our markers."""
    ends: dict[tuple[str, str], list[re.Match[str]]] = {}
    for closing in _CLOSING_MARK.finditer(text):
        ends.setdefault((closing[1], closing[2]), []).append(closing)
    found, at = list[tuple[int, int]](), 0
    for opening in _find_opening_marks(text) if ends else ():
        if opening.start >= at and (end := _find_end(opening, ends)) is not None:
            found.append((opening.start, end))
            at = end
    return found


class _OpeningMark(NamedTuple):
    """Opening marker: range, kind and id."""

    start: int
    end: int
    kind: str
    id: str


def _find_opening_marks(text: str) -> Iterator[_OpeningMark]:
    """Find opening markers. Each ends with `>` at the end of its line."""
    at = 0
    while match := _OPENING_MARK.search(text, at):
        at, rest = match.start() + 1, match.end()
        end = text.find("\n", rest, rest + MAX_MARK_REST + 3)
        if end > rest and text[end - 1] == ">" and (text[rest] == " " or end == rest + 1):
            at = end + 1
            yield _OpeningMark(match.start(), at, match["kind"], match["id"])


def _find_end(opening: _OpeningMark, ends: dict[tuple[str, str], list[re.Match[str]]]) -> int | None:
    """End of the first closing marker that matches an opening one."""
    found = ends.get((opening.kind, opening.id), [])
    place = bisect_left(found, opening.end, key=lambda closing: closing.start())
    return found[place].end() if place < len(found) else None


def to_one_line(text: str, max_bytes: int = MAX_NAME_BYTES) -> str:
    """Reduce a text to a short name on one line."""
    flat = _WHITESPACE.sub(" ", text[: max_bytes * 8].encode(errors="replace").decode()).strip()
    return flat.encode()[:max_bytes].decode(errors="ignore").rstrip()


def make_title(name: str, place: int | None, key: str) -> str:
    """Title of a turn: conversation, position, and part of the key to make it unique."""
    spot = "" if place is None or place >= 1 << 32 else f" {place}"
    return f"{to_one_line(name) or 'Conversation'}{spot} · {key[:8]}"


def read_timestamp(value: Any) -> int | None:
    """Parse a time: seconds, milliseconds or microseconds since 1970, or text. None: unknown."""
    if value is None or value == "" or value == 0:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Invalid("not a time")
    if isinstance(value, int | float):
        return _to_microseconds(value)
    try:
        return _to_microseconds(Decimal(value))
    except InvalidOperation:
        return parse_timestamp(value.strip()[:64], "time")


def _to_microseconds(number: Any) -> int:
    """Convert a number since 1970 to microseconds; its size determines the unit."""
    for most, scale in _SCALES:
        if abs(number) < most:
            found: int = round(number * scale)
            return found
    raise Invalid("not a time")


_SCALES = ((10**11, SECOND), (10**14, 1000), (10**18, 1))
"""Upper bounds of seconds, milliseconds and microseconds. Seconds reach the year 5138."""


def check_timestamp(value: Any, now: int) -> tuple[int | None, str | None]:
    """Parse a time. Returns None and the reason if it is invalid; never the current time."""
    try:
        at = read_timestamp(value)
    except Invalid:
        return None, f"invalid time {str(value)[:64]!r}; stored without a time"
    if at is None:
        return None, None
    if at > now + DAY:
        return None, f"time {str(value)[:64]!r} is in the future; stored without a time"
    if at < MIN_TIMESTAMP:
        return None, f"time {str(value)[:64]!r} is before 1970-01-03; stored without a time"
    return at, None


def digest(*parts: str) -> str:
    return sha256("\x00".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]


def digest_utterance(*scope: str, text: str) -> str:
    """Digest of a text within a conversation and speaker, ignoring whitespace."""
    return digest(*scope, " ".join(text.split()))
