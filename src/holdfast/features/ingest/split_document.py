"""Split a document into pieces, each with its title, exact span, headings and digest.

A segment is a paragraph, list, table or code block. Longer blocks are split between list items, lines, sentences, words
and finally characters. Markdown and plain text are handled alike. Only whitespace, rulers and headings are left between
segments; a heading without content is a segment of its own.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import chain, islice
from typing import Literal, NamedTuple

from holdfast.features.ingest import helpers
from holdfast.features.ingest.helpers import Classified
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.transaction import CompressedList
from holdfast.kernel.text.recalled_blocks import find_recalled

Kind = Literal["paragraph", "list", "table", "code", "heading"]
DEFAULT_LENGTH = 1200
"""Default maximum length of a segment in characters."""
MAX_CODE_LENGTH = 16_000
"""Code blocks up to this many characters are kept whole; they fit into a memory in any encoding."""
MAX_HEADING_LENGTH = 200
"""Longer lines are never headings."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]++([^\r\n]*+))?[\r\n]*+\Z")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*[\r\n]*\Z")
_RULER = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*[\r\n]*\Z")
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t]+\S")
_ROW = re.compile(r"[ \t]*\|")
_TABLE_RULER = re.compile(
    r"[ \t]*+(?:\|[ \t]*+)?:?-{2,}+:?[ \t]*+(?:\|[ \t]*+:?-{2,}+:?[ \t]*+)++(?:\|[ \t]*+)?[\r\n]*+\Z"
)
_INDENT = re.compile(r" {4}|\t")
_INNER = re.compile(r" {2,}|\t")
_BLANK = re.compile(r"\s*\Z")
_SENTENCE = re.compile(r"(?<=[.!?…؟۔])[\"'”’»)\]]*\s+|(?<=[。！？｡।॥།။។])[」』”’）》】\s]*")
_WORD = re.compile(r"\s+")
_NEWLINE = re.compile(r"\r\n|\n|\r")
_NEW_ITEM = re.compile(r"(?:\r\n|\n|\r)(?=[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t]+\S)")
_OPENING = re.compile(r"---[ \t]*(?:\r\n|\n|\r)")
_CLOSING = re.compile(r"(?:^|(?<=[\r\n]))(?:---|\.\.\.)[ \t]*(?:\r\n|\n|\r|\Z)")
_FRONT = re.compile(r"[\w-]+[ \t]*:|\s*#|---|\.\.\.")
_TITLE = re.compile(r"^title[ \t]*:[ \t]*(\S[^\r\n]*)", re.MULTILINE | re.IGNORECASE)


class Segment(NamedTuple):
    """A span of the text, its kind, and the headings above it."""

    start: int
    end: int
    kind: Kind
    path: tuple[str, ...]


class Line(NamedTuple):
    start: int
    end: int


class Heading(NamedTuple):
    level: int
    text: str
    start: int
    end: int


class Outline(NamedTuple):
    """The structure of a document."""

    front: tuple[int, int] | None
    """Span of the front matter, including its fences."""
    title: str | None
    headings: list[Heading]
    segments: list[Segment]


def parse_outline(text: str, max_length: int = DEFAULT_LENGTH, limit: int | None = None) -> Outline:
    """Parse a document: front matter, title, headings and up to `limit` segments."""
    front, begins = find_front_matter(text)
    reading = _Parser(text, max_length)
    segments = list(islice(reading.read_segments(begins), limit))
    title_line = _TITLE.search(text, *front) if front else None
    title = title_line[1].strip().strip("\"'") if title_line else ""
    first = next((one for one in reading.headings if one.level == 1), None)
    return Outline(front, title or (first.text if first else None), reading.headings, segments)


def split_segments(text: str, max_length: int = DEFAULT_LENGTH) -> Iterator[Segment]:
    """Yield the segments of a text in order; `text[start:end]` is the content of each."""
    return _Parser(text, max_length).read_segments(find_front_matter(text)[1])


def find_front_matter(text: str) -> tuple[tuple[int, int] | None, int]:
    """Find front matter between lines of three dashes; return its span, if any, and where the text starts."""
    begins = 1 if text.startswith("\ufeff") else 0
    opening = _OPENING.match(text, begins)
    if opening:
        closing = _CLOSING.search(text, opening.end())
        if closing and _FRONT.match(text, opening.end()):
            return (begins, closing.end()), closing.end()
    return None, begins


def _strip_closing_marks(title: str) -> str:
    """Remove closing number signs after a space from a heading."""
    stripped = title.rstrip(" \t")
    before = stripped.rstrip("#")
    return before if before[-1:] in (" ", "\t") else stripped


class _Parser:
    """One pass over the lines of a text."""

    def __init__(self, text: str, max_length: int) -> None:
        self.headings: list[Heading] = []
        self._text = text
        self._max_length = max_length
        self._open_headings: list[tuple[Heading, list[bool]]] = []
        """Headings of the current position, each with a flag whether it has content."""

    def read_segments(self, begins: int) -> Iterator[Segment]:
        pending: Segment | None = None
        for block in self._read_blocks(begins):
            if pending and block.kind in ("list", "table", "code") and self._introduces(pending, block):
                pending = Segment(pending.start, block.end, block.kind, pending.path)
                continue
            if pending:
                yield from self._split_block(pending)
            pending = block
        if pending:
            yield from self._split_block(pending)

    def _introduces(self, before: Segment, block: Segment) -> bool:
        """Whether a paragraph ends with a colon and belongs to the block after it."""
        room = MAX_CODE_LENGTH if block.kind == "code" else self._max_length
        if before.kind != "paragraph" or before.path != block.path or block.end - before.start > room:
            return False
        return self._text[before.end - 1] in ":："

    def _read_blocks(self, begins: int) -> Iterator[Segment]:
        """Yield whole blocks of any length."""
        lines = _Lines(self._text, begins)
        for line in lines:
            if self._match(_BLANK, line) or self._match(_RULER, line):
                continue
            if fence := self._match(_FENCE, line):
                yield self._build_segment("code", line.start, self._read_fenced(lines, line, fence[1]))
            elif (heading := self._parse_heading(line)) is not None:
                yield from self._begin_heading(heading)
            elif self._match(_ITEM, line):
                yield self._build_segment("list", line.start, self._read_list(lines, line))
            elif self._match(_ROW, line):
                yield self._build_segment("table", line.start, self._read_while(lines, line, _ROW))
            elif self._match(_INDENT, line):
                yield self._build_segment("code", line.start, self._read_while(lines, line, _INDENT))
            else:
                yield from self._read_paragraph(lines, line)
        while self._open_headings:
            yield from self._end_heading()

    def _match(self, pattern: re.Pattern[str], line: Line) -> re.Match[str] | None:
        return pattern.match(self._text, line.start, line.end)

    def _parse_heading(self, line: Line) -> Heading | None:
        if line.end - line.start > MAX_HEADING_LENGTH or not (found := self._match(_HEADING, line)):
            return None
        return Heading(len(found[1]), _strip_closing_marks(found[2] or "").strip(), line.start, line.end)

    def _read_fenced(self, lines: "_Lines", line: Line, fence: str) -> int:
        """Read up to the closing fence, or to the end of the text."""
        close, end = re.compile(rf" {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*[\r\n]*\Z"), line.end
        for inner in lines:
            end = inner.end
            if self._match(close, inner):
                break
        return end

    def _read_while(self, lines: "_Lines", line: Line, pattern: re.Pattern[str]) -> int:
        end = line.end
        while (following := lines.peek()) and self._match(pattern, following) and not self._match(_BLANK, following):
            end = next(lines).end
        return end

    def _read_list(self, lines: "_Lines", line: Line) -> int:
        """Read to the end of a list. Blank lines belong to it if an item or an indented line follows."""
        end, blank = line.end, False
        while following := lines.peek():
            if self._match(_BLANK, following):
                blank = True
                next(lines)
                continue
            goes_on = self._match(_ITEM, following) or self._match(_INNER, following) or not blank
            if not goes_on or self._interrupts(following):
                break
            end, blank = next(lines).end, False
        return end

    def _interrupts(self, line: Line) -> bool:
        """Whether a line ends the block before it."""
        if self._match(_FENCE, line) or self._match(_RULER, line):
            return True
        return self._parse_heading(line) is not None

    def _read_paragraph(self, lines: "_Lines", line: Line) -> Iterator[Segment]:
        start, end, number = line.start, line.end, 1
        kind: Kind = "paragraph"
        while (following := lines.peek()) and not self._match(_BLANK, following):
            if number == 1 and end - start <= MAX_HEADING_LENGTH and (under := self._match(_UNDERLINE, following)):
                next(lines)
                level = 1 if under[1][0] == "=" else 2
                yield from self._begin_heading(Heading(level, self._text[start:end].strip(), start, following.end))
                return
            if self._match(_TABLE_RULER, following):
                kind = "table"
            elif kind == "paragraph" and (self._interrupts(following) or self._match(_ITEM, following)):
                break
            end, number = next(lines).end, number + 1
        yield self._build_segment(kind, start, end)

    def _begin_heading(self, heading: Heading) -> Iterator[Segment]:
        while self._open_headings and self._open_headings[-1][0].level >= heading.level:
            yield from self._end_heading()
        self.headings.append(heading)
        self._open_headings.append((heading, [False]))

    def _end_heading(self) -> Iterator[Segment]:
        """Close the innermost heading; without content it becomes a segment."""
        heading, used = self._open_headings.pop()
        if not used[0] and heading.text:
            yield self._build_segment("heading", heading.start, heading.end)

    def _build_segment(self, kind: Kind, start: int, end: int) -> Segment:
        for _, used in self._open_headings:
            used[0] = True
        path = tuple(heading.text for heading, _ in self._open_headings if heading.text)
        return Segment(*self._trim_span(start, end, keep_indent=kind in ("code", "list")), kind, path)

    def _trim_span(self, start: int, end: int, *, keep_indent: bool = False) -> tuple[int, int]:
        """Trim whitespace from a span; code and lists keep the indentation of their first line."""
        while end > start and self._text[end - 1].isspace():
            end -= 1
        first = start
        while start < end and self._text[start].isspace():
            start += 1
            if self._text[start - 1] in "\r\n":
                first = start
        return (first if keep_indent else start), end

    def _split_block(self, block: Segment) -> Iterator[Segment]:
        most = MAX_CODE_LENGTH if block.kind in ("code", "heading") else self._max_length
        if block.end - block.start <= most:
            yield block
            return
        for start, end in _split_span(self._text, block.start, block.end, most, _SPLIT_PATTERNS[block.kind]):
            span = self._trim_span(start, end, keep_indent=block.kind == "code")
            if span[0] < span[1]:
                yield Segment(*span, block.kind, block.path)


class _Lines:
    """Iterator over lines with one line of lookahead."""

    def __init__(self, text: str, begins: int) -> None:
        self._matches = _LINE.finditer(text, begins)
        self._next = self._read_line()

    def _read_line(self) -> Line | None:
        found = next(self._matches, None)
        return Line(*found.span()) if found else None

    def peek(self) -> Line | None:
        return self._next

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> Line:
        line = self._next
        if line is None:
            raise StopIteration
        self._next = self._read_line()
        return line


SplitPatterns = tuple[re.Pattern[str], ...]
_SPLIT_PATTERNS: dict[Kind, SplitPatterns] = {
    "paragraph": (_SENTENCE, _WORD),
    "heading": (_WORD,),
    "list": (_NEW_ITEM, _NEWLINE, _SENTENCE, _WORD),
    "table": (_NEWLINE, _WORD),
    "code": (_NEWLINE, _WORD),
}
"""Split points for each kind of block, coarsest first."""


def _split_span(text: str, start: int, end: int, max_length: int, patterns: SplitPatterns) -> Iterator[tuple[int, int]]:
    """Split a span into pieces of limited length, each with as many whole parts as fit."""
    cuts: Iterable[int]
    if patterns:
        cuts = (found.end() for found in patterns[0].finditer(text, start, end))
    else:
        cuts = range(start + max_length, end, max_length)
    begin = last = start
    for at in chain(cuts, (end,)):
        if at - begin > max_length and last > begin:
            yield begin, last
            begin = last
        if at - begin > max_length:
            yield from _split_span(text, begin, at, max_length, patterns[1:])
            begin = at
        last = at
    if begin < end:
        yield begin, end


def build_byte_counter(text: str) -> Callable[[int], int]:
    """Return a function that maps character offsets, in ascending order, to UTF-8 byte offsets."""
    at = 0
    size = 0

    def bytes_before(character: int) -> int:
        nonlocal at, size
        size += len(text[at:character].encode())
        at = character
        return size

    return bytes_before if not text.isascii() else lambda character: character


Method = Literal["heuristic", "llm"]
MAX_SEGMENTS = 100_000
"""Segments per document: it is planned as a whole and stored in one transaction."""
MIN_WORDS = 8
LEAD_LENGTH = 80
"""Characters of a text quoted in its title."""
MAX_TITLE_BYTES = 480
"""In bytes; leaves room for a suffix."""


class Piece(NamedTuple):
    """A segment of a document, or a sentence a model wrote about it."""

    place: int
    title: str
    text: str
    digest: str
    kind: str
    path: tuple[str, ...]
    line: int
    begins: int
    """Byte offset in UTF-8, as in a memory's source span."""
    ends: int
    classified: Classified
    method: Method = "heuristic"
    model: str | None = None
    tags: tuple[str, ...] = ()
    pasted_block: str = ""
    """The pasted block of recalled text that contains it, if any."""


class SplitDocument(NamedTuple):
    """A document split into pieces."""

    title: str | None
    headings: list[str]
    pieces: CompressedList[Piece]


def split_document(text: str, max_length: int = DEFAULT_LENGTH) -> SplitDocument:
    """Split a document into pieces, each with its position, kind and title."""
    found = parse_outline(text, max_length, MAX_SEGMENTS + 1)
    if len(found.segments) > MAX_SEGMENTS:
        raise Invalid(f"content has more than {MAX_SEGMENTS:,} segments: ingest it in parts", fields=["content"])
    before, line_of = build_byte_counter(text), _LineCounter(text)
    block_at = _PastedBlocks(text)
    pieces = CompressedList(Piece)
    for place, one in enumerate(found.segments):
        content = text[one.start : one.end]
        begins, ends = before(one.start), before(one.end)
        line = line_of(one.start)
        pieces.append(
            Piece(
                place,
                build_title(one, content, line),
                content,
                hash_text(content),
                one.kind,
                one.path,
                line,
                begins,
                ends,
                helpers.classified(content),
                pasted_block=block_at(one.start, one.end),
            )
        )
    headings = [f"{'#' * one.level} {helpers.preview(one.text)}" for one in found.headings if one.text]
    return SplitDocument(found.title, headings, pieces)


class _PastedBlocks:
    """Find the pasted block of recalled text that contains a span."""

    def __init__(self, text: str) -> None:
        self._places = find_recalled(text)
        self._blocks = [text[start:end] for start, end in self._places]

    def __call__(self, start: int, end: int) -> str:
        place = bisect_right(self._places, start, key=lambda one: one[0]) - 1
        return self._blocks[place] if place >= 0 and end <= self._places[place][1] else ""


class _LineCounter:
    """Map character offsets, given in ascending order, to line numbers."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._line = text, 0, 1

    def __call__(self, character: int) -> int:
        text, at = self._text, self._at
        self._line += text.count("\n", at, character) + _count_bare_returns(text, at, character)
        self._at = character
        return self._line


def _count_bare_returns(text: str, start: int, end: int) -> int:
    """Count line ends that are a bare carriage return (old Macintosh files)."""
    returns = text.count("\r", start, end)
    return returns - text.count("\r\n", start, end) if returns else 0


def hash_text(text: str, path: Sequence[str] = ()) -> str:
    """Hash a text, ignoring case and whitespace. A very short text is hashed together with its headings."""
    normalized = " ".join(text.casefold().split())
    where = "" if is_self_contained(text) else "\n".join(path)
    return sha256(f"{where}\x00{normalized}".encode()).hexdigest()


def is_self_contained(text: str) -> bool:
    """Whether a text has a meaning without its headings; a few words such as "None." do not."""
    return len(text.split()) >= MIN_WORDS or len(text.encode()) >= MIN_WORDS * 8


def build_title(segment: Segment, said: str, line: int) -> str:
    """Build a title from the headings above a piece and its first words."""
    lead = extract_lead(said) or f"{segment.kind}, line {line}"
    above = helpers.preview(make_printable(" > ".join(segment.path[-3:])), 2 * LEAD_LENGTH)
    return fit_title(f"{above}: {lead}" if above else lead)


def make_printable(text: str) -> str:
    """Return a text in one line without control characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def fit_title(title: str) -> str:
    """Truncate a title to the byte limit, which leaves room for a distinguishing suffix."""
    if len(encoded := title.encode()) <= MAX_TITLE_BYTES:
        return title
    return encoded[:MAX_TITLE_BYTES].decode(errors="ignore").rstrip() + "…"


def extract_lead(text: str) -> str:
    """Return the first words of a text without Markdown formatting."""
    for line in text[: 8 * LEAD_LENGTH].splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            continue
        words = _FORMAT.sub("", _LINK.sub(r"\1", line.strip("`~#>*|+-= \t")))
        clean = make_printable(words)
        if any(letter.isalnum() for letter in clean):
            return helpers.preview(clean, LEAD_LENGTH)
    return ""


_LINK = re.compile(r"!?\[([^\]\n]{1,200}+)\]\([^)\s]{1,400}+\)")
_FORMAT = re.compile(r"\*\*|<!--|-->")
