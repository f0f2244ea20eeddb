"""Index terms: the passages of a memory and their stems, computed once when it is stored.

One line per passage. Stems are separated by two blanks, so that each has its own on both sides and can be counted as a
substring. The first line is for title and tags.
"""

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from holdfast.kernel.storage import fts_tokens as tokens
from holdfast.kernel.text.passages import Passage, asks, head, passages


class Line(Struct, frozen=True, gc=False):
    """Index terms of a passage: its position, speaker and stems."""

    begins: int
    ends: int
    speaker: str | None
    stems: str


class Parsed(Struct, frozen=True, gc=False):
    text: str
    """The stored text."""
    asks: bool
    length: int
    """Number of stems in all passages."""
    labels: str
    """Stems of the title (if not part of the content), of the tags and of a name at the head."""
    lines: list[Line]


NOTHING = Parsed(text="", asks=False, length=0, labels="", lines=[])


def pad(stem: str) -> str:
    return f" {stem} "


@lru_cache(maxsize=2)
def parse(title: str, content: str, tags: str) -> str:
    """Compute the index terms of a memory. Recent ones are cached: deduplication needs them before the write."""
    length, lines, cut = 0, [], passages(content)
    for begins, ends, speaker in cut:
        stems = tokens.found_by(content[begins:ends])
        length += len(stems)
        lines.append(f"{begins}\t{ends}\t{speaker or ''}\t{_joined(stems)}")
    return "\n".join([f"{int(asks(content))}\t{length}\t{_joined(_labels(title, content, tags, cut))}", *lines])


def in_one_line(content: str) -> Parsed:
    """Compute the terms of a text that is not part of the memory, so that it has no passage positions."""
    stems = tokens.found_by(content)
    said = Line(0, 0, None, _joined(stems))
    return Parsed(text=said.stems, asks=False, length=len(stems), labels="", lines=[said])


def _labels(title: str, content: str, tags: str, cut: Sequence[Passage]) -> list[str]:
    """Return the stems of title (if not in the content), tags, and a name at the head of the content.

    In a transcript, every passage has its own speaker, so the head is not a label.
    """
    name = head(content).speaker if not any(passage.speaker for passage in cut[:1]) else None
    said = ["" if title in content else title, "" if tags == "[]" else tags, name or ""]
    return tokens.found_by(" ".join(said)) if any(said) else []


def read(text: str) -> Parsed:
    """Decode stored index terms."""
    if not text:
        return NOTHING
    first, *others = text.split("\n")
    asking, length, labels = first.split("\t")
    lines = []
    for other in others:
        begins, ends, speaker, stems = other.split("\t")
        lines.append(Line(int(begins), int(ends), speaker or None, stems))
    return Parsed(text, asking == "1", int(length), labels, lines)


def length_of(text: str) -> int:
    """Return the number of stems, without decoding everything."""
    return int(text.split("\t", 2)[1]) if text else 0


def is_asking(text: str) -> bool:
    """Whether the memory is a question, without decoding everything."""
    return text.startswith("1")


def _joined(stems: list[str]) -> str:
    return pad("  ".join(stems)) if stems else ""
