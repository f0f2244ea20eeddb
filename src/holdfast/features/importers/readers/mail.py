"""Reader of mbox mail: messages separated by `From ` lines."""

import re
from collections.abc import Iterator
from email import policy
from email.errors import MessageError
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import parseaddr, parsedate_to_datetime
from html.parser import HTMLParser
from typing import IO, NamedTuple

from holdfast.features.importers.model import Problem, Record, Turn, digest, line, moment_of
from holdfast.features.importers.readers.reader import Told
from holdfast.features.importers.sources import Piece, watched

MOST_MESSAGE = 64 << 20
MOST_HEADER = 1 << 16
MOST_NESTED = 100
MOST_HTML = 1 << 19
"""Limits that protect the mail and HTML parsers from hostile input."""
STEP = 1 << 16
HEADER = re.compile(rb"From [^\n]*\n(?:>?[!-9;-~]+:[^\n]*\n)", re.DOTALL)
_ESCAPED = re.compile(rb"^>(>*From )", re.MULTILINE)
_ID = re.compile(r"<[^<>\s]+>")
_ANSWER = re.compile(r"^(?:(?:re|fwd?|aw|wg|sv|antw)\s*(?:\[\d+\])?:\s*)+", re.IGNORECASE)


class Mail(NamedTuple):
    """Raw message with its position in the file."""

    number: int
    at: int
    data: bytes
    size: int


def read(piece: Piece, told: Told) -> Iterator[Record]:
    """Read all messages. Replies share the conversation of the first message."""
    with watched(piece, told) as source:
        for mail in mails(source):
            where = f"{piece.name}[{mail.number}] byte {mail.at}"
            if mail.size > MOST_MESSAGE:
                yield Problem(where=where, what=f"has {mail.size} bytes; the maximum is {MOST_MESSAGE}")
                continue
            try:
                yield _turn(mail, where)
            except (ValueError, LookupError, AttributeError, TypeError, RecursionError, MessageError) as error:
                yield Problem(where=where, what=f"invalid mail: {line(str(error)) or type(error).__name__}")


def mails(source: IO[bytes], most: int = MOST_MESSAGE) -> Iterator[Mail]:
    """Split an mbox into messages. Of a message that is too long only the size is kept."""
    number, at, start, size = -1, 0, 0, 0
    lines: list[bytes] = []
    blank = True
    while data := source.readline(STEP):
        if blank and data.startswith(b"From "):
            if number >= 0:
                yield Mail(number, start, b"".join(lines), size)
            number, start, size = number + 1, at, 0
            lines = []
        else:
            size += len(data)
            if size <= most:
                lines.append(data)
            else:
                lines.clear()
        blank = data in (b"\n", b"\r\n")
        at += len(data)
    if number >= 0:
        yield Mail(number, start, b"".join(lines), size)


def _turn(mail: Mail, where: str) -> Record:
    if _header_size(mail.data) > MOST_HEADER:
        return Problem(where=where, what=f"header exceeds {MOST_HEADER} bytes")
    if mail.data.count(b"multipart/") > MOST_NESTED:
        return Problem(where=where, what=f"more than {MOST_NESTED} nested parts")
    message = BytesParser(_class=EmailMessage, policy=policy.default).parsebytes(_ESCAPED.sub(rb"\1", mail.data))
    text = _body(message)
    files = [name for part in message.walk() if (name := part.get_filename())]
    if not text.strip():
        if not files:
            return Problem(where=where, what="no text", rejected=False)
        text = "\n".join(f"[file {name}]" for name in files)
    id = (
        next(iter(_ID.findall(_header(message, "Message-ID"))), "") or f"<{digest(mail.data.decode(errors='replace'))}>"
    )
    above = [*_ID.findall(_header(message, "References")), *_ID.findall(_header(message, "In-Reply-To"))]
    name, address = parseaddr(_header(message, "From"))
    at = _sent(message)
    return Turn(
        key=f"mbox/{id}",
        thread=line((above[0] if above else id).strip("<>"), 256),
        name=_ANSWER.sub("", _header(message, "Subject")) or "Mail",
        speaker=line(name or address) or "unknown",
        content=text,
        at=at,
        place=moment_of(at) if isinstance(at, float) and at > 0 else None,
        uri=f"uri:mbox:{line(id.strip('<>'), 512)}",
        where=where,
        metadata={
            **({"from": line(address)} if address else {}),
            **({"to": to} if (to := line(_header(message, "To"), 400)) else {}),
            **({"files": [line(name) for name in files[:20]]} if files else {}),
        },
    )


def _header_size(data: bytes) -> int:
    ends = [at for sign in (b"\n\n", b"\n\r\n") if (at := data.find(sign)) != -1]
    return min(ends, default=len(data))


def _header(message: EmailMessage, name: str) -> str:
    return str(message.get(name, ""))


def _sent(message: EmailMessage) -> float | str | None:
    """Date of a message; the raw text if it is not a date."""
    date = _header(message, "Date").strip()
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (ValueError, OverflowError, TypeError):
        return date


def _body(message: EmailMessage) -> str:
    """Text of a message, quotes included; HTML is converted to text."""
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    try:
        text = part.get_content()
    except (LookupError, UnicodeDecodeError):
        text = (part.get_payload(decode=True) or b"").decode("utf-8", "replace")  # type: ignore[union-attr]
    if part.get_content_subtype() != "html":
        return str(text)
    if len(text) > MOST_HTML:
        raise ValueError(f"its HTML exceeds {MOST_HTML} characters")
    return _shown(str(text))


def _shown(text: str) -> str:
    parser = _Shown()
    parser.feed(text)
    parser.close()
    return re.sub(r"\n{3,}", "\n\n", "".join(parser.parts)).strip()


class _Shown(HTMLParser):
    """Collects the visible text of HTML, with line breaks at block elements."""

    _HIDDEN = ("script", "style", "head", "title")
    _LINES = ("p", "br", "div", "tr", "li", "h1", "h2", "h3", "blockquote")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in self._HIDDEN
        if tag in self._LINES:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in self._HIDDEN))

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)
