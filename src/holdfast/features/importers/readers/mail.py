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

from holdfast.features.importers.model import Problem, Record, Turn, digest, read_timestamp, to_one_line
from holdfast.features.importers.readers.reader import ProgressCallback
from holdfast.features.importers.sources import Piece, open_with_progress

MAX_MESSAGE_BYTES = 64 << 20
MAX_HEADER_BYTES = 1 << 16
MAX_MULTIPARTS = 100
MAX_HTML_CHARS = 1 << 19
"""Limits that protect the mail and HTML parsers from hostile input."""
READ_BYTES = 1 << 16
HEADER = re.compile(rb"From [^\n]*\n(?:>?[!-9;-~]+:[^\n]*\n)", re.DOTALL)
_ESCAPED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_ID = re.compile(r"<[^<>\s]+>")
_REPLY_PREFIX = re.compile(r"^(?:(?:re|fwd?|aw|wg|sv|antw)\s*(?:\[\d+\])?:\s*)+", re.IGNORECASE)


class Mail(NamedTuple):
    """Raw message with its position in the file."""

    number: int
    at: int
    data: bytes
    size: int


def read(piece: Piece, on_read: ProgressCallback) -> Iterator[Record]:
    """Read all messages. Replies share the conversation of the first message."""
    with open_with_progress(piece, on_read) as source:
        for mail in read_mails(source):
            where = f"{piece.name}[{mail.number}] byte {mail.at}"
            if mail.size > MAX_MESSAGE_BYTES:
                yield Problem(where=where, what=f"has {mail.size} bytes; the maximum is {MAX_MESSAGE_BYTES}")
                continue
            try:
                yield _make_turn(mail, where)
            except (ValueError, LookupError, AttributeError, TypeError, RecursionError, MessageError) as error:
                yield Problem(where=where, what=f"invalid mail: {to_one_line(str(error)) or type(error).__name__}")


def read_mails(source: IO[bytes], max_bytes: int = MAX_MESSAGE_BYTES) -> Iterator[Mail]:
    """Split an mbox into messages. Of a message that is too long only the size is kept."""
    number, at, start, size = -1, 0, 0, 0
    lines: list[bytes] = []
    blank = True
    while data := source.readline(READ_BYTES):
        if blank and data.startswith(b"From "):
            if number >= 0:
                yield Mail(number, start, b"".join(lines), size)
            number, start, size = number + 1, at, 0
            lines = []
        else:
            size += len(data)
            if size <= max_bytes:
                lines.append(data)
            else:
                lines.clear()
        blank = data in (b"\n", b"\r\n")
        at += len(data)
    if number >= 0:
        yield Mail(number, start, b"".join(lines), size)


def _make_turn(mail: Mail, where: str) -> Record:
    if _header_size(mail.data) > MAX_HEADER_BYTES:
        return Problem(where=where, what=f"header exceeds {MAX_HEADER_BYTES} bytes")
    if mail.data.count(b"multipart/") > MAX_MULTIPARTS:
        return Problem(where=where, what=f"more than {MAX_MULTIPARTS} nested parts")
    message = BytesParser(_class=EmailMessage, policy=policy.default).parsebytes(_ESCAPED_FROM.sub(rb"\1", mail.data))
    text = _body_text(message)
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
    at = _parse_date(message)
    return Turn(
        key=f"mbox/{id}",
        thread=to_one_line((above[0] if above else id).strip("<>"), 256),
        name=_REPLY_PREFIX.sub("", _header(message, "Subject")) or "Mail",
        speaker=to_one_line(name or address) or "unknown",
        content=text,
        at=at,
        place=read_timestamp(at) if isinstance(at, float) and at > 0 else None,
        uri=f"uri:mbox:{to_one_line(id.strip('<>'), 512)}",
        where=where,
        metadata={
            **({"from": to_one_line(address)} if address else {}),
            **({"to": to} if (to := to_one_line(_header(message, "To"), 400)) else {}),
            **({"files": [to_one_line(name) for name in files[:20]]} if files else {}),
        },
    )


def _header_size(data: bytes) -> int:
    ends = [at for sign in (b"\n\n", b"\n\r\n") if (at := data.find(sign)) != -1]
    return min(ends, default=len(data))


def _header(message: EmailMessage, name: str) -> str:
    return str(message.get(name, ""))


def _parse_date(message: EmailMessage) -> float | str | None:
    """Date of a message; the raw text if it is not a date."""
    date = _header(message, "Date").strip()
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (ValueError, OverflowError, TypeError):
        return date


def _body_text(message: EmailMessage) -> str:
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
    if len(text) > MAX_HTML_CHARS:
        raise ValueError(f"its HTML exceeds {MAX_HTML_CHARS} characters")
    return _html_to_text(str(text))


def _html_to_text(text: str) -> str:
    parser = _HtmlText()
    parser.feed(text)
    parser.close()
    return re.sub(r"\n{3,}", "\n\n", "".join(parser.parts)).strip()


class _HtmlText(HTMLParser):
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
