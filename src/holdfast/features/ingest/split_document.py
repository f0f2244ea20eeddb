"""Split a document into pieces, each with its title, position and digest."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from hashlib import sha256
from typing import Literal, NamedTuple

from holdfast.features.ingest import helpers
from holdfast.features.ingest.helpers import Classified
from holdfast.features.ingest.pipeline import Pipeline
from holdfast.features.ingest.segment import Segment, build_byte_counter, parse_outline
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.transaction import CompressedList
from holdfast.kernel.text.recalled_blocks import find_recalled

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


def split_document(text: str, pipeline: Pipeline) -> SplitDocument:
    """Split a document into pieces, each with its position, kind and title."""
    found = parse_outline(text, pipeline.segment_stage.longest, MAX_SEGMENTS + 1)
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
