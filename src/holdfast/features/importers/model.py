"""Records that readers yield: conversation turns, notes, links and problems."""

import re
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
