"""A memory's text taken apart when it is kept, so that a question need not do it: its passages and their stems.

A line for each passage, with two blanks between stems: each has its own on both sides, so that counting one is
counting a piece of text. The first line is for the title and the tags.
"""

from typing import NamedTuple

from ..domain.passages import asks, head, passages
from . import tokens

TITLE = -1


class Line(NamedTuple):
    """A passage as it is kept: where it stands, how many stems it has, who says it, and the stems."""

    begins: int
    ends: int
    length: int
    speaker: str | None
    stems: str

    def count(self, padded: str) -> int:
        """How often a stem, between its blanks, stands here."""
        return self.stems.count(padded)


class Parsed(NamedTuple):
    asks: bool
    labels: str
    """The stems of the title, as far as it says more than the content, of the tags and of a name at the head."""
    lines: list[Line]

    @property
    def length(self) -> int:
        return sum(line.length for line in self.lines)


def pad(stem: str) -> str:
    return f" {stem} "


def parse(title: str, content: str, tags: str) -> str:
    """Take a text apart."""
    lines = [f"{int(asks(content))}\t{_joined(_labels(title, content, tags))}"]
    for begins, ends, speaker in passages(content):
        stems = tokens.found_by(content[begins:ends])
        lines.append(f"{begins}\t{ends}\t{len(stems)}\t{speaker or ''}\t{_joined(stems)}")
    return "\n".join(lines)


def _labels(title: str, content: str, tags: str) -> list[str]:
    """What a title says that the content does not, the tags, and the name at the content's head: it may be none."""
    said = ["" if title in content else title, "" if tags == "[]" else tags, head(content).speaker or ""]
    return tokens.found_by(" ".join(said)) if any(said) else []


def read(text: str) -> Parsed:
    """What `parse` made of a text."""
    first, *others = text.split("\n")
    asking, labels = first.split("\t")
    return Parsed(asking == "1", labels, list(map(_line, others)))


def _line(text: str) -> Line:
    begins, ends, length, speaker, stems = text.split("\t")
    return Line(int(begins), int(ends), int(length), speaker or None, stems)


def _joined(stems: list[str]) -> str:
    return pad("  ".join(stems)) if stems else ""
