"""A memory's text taken apart when it is kept, so that a question need not do it: its passages and their stems.

A line for each passage, with two blanks between stems: each has its own on both sides, so that counting one is
counting a piece of text. The first line is for the title and the tags.
"""

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from holdfast.kernel.storage import fts_tokens as tokens
from holdfast.kernel.text.passages import Passage, asks, head, passages


class Line(Struct, frozen=True, gc=False):
    """A passage as it is kept: where it stands, who says it, and its stems."""

    begins: int
    ends: int
    speaker: str | None
    stems: str


class Parsed(Struct, frozen=True, gc=False):
    text: str
    """All of it, as it is kept."""
    asks: bool
    length: int
    """Stems of all passages."""
    labels: str
    """The stems of the title, as far as it says more than the content, of the tags and of a name at the head."""
    lines: list[Line]


NOTHING = Parsed(text="", asks=False, length=0, labels="", lines=[])


def pad(stem: str) -> str:
    return f" {stem} "


@lru_cache(maxsize=2)
def parse(title: str, content: str, tags: str) -> str:
    """Take a text apart. The last ones are kept: who looks for what is like a memory needs it before it is written."""
    length, lines, cut = 0, [], passages(content)
    for begins, ends, speaker in cut:
        stems = tokens.found_by(content[begins:ends])
        length += len(stems)
        lines.append(f"{begins}\t{ends}\t{speaker or ''}\t{_joined(stems)}")
    return "\n".join([f"{int(asks(content))}\t{length}\t{_joined(_labels(title, content, tags, cut))}", *lines])


def in_one_line(content: str) -> Parsed:
    """A text that stands nowhere in its memory, taken apart: no passage of it can be pointed at."""
    stems = tokens.found_by(content)
    said = Line(0, 0, None, _joined(stems))
    return Parsed(text=said.stems, asks=False, length=len(stems), labels="", lines=[said])


def _labels(title: str, content: str, tags: str, cut: Sequence[Passage]) -> list[str]:
    """What a title says that the content does not, the tags, and the name at the content's head: it may be none.

    In a transcript, where each passage has its speaker, it is one.
    """
    name = head(content).speaker if not any(passage.speaker for passage in cut[:1]) else None
    said = ["" if title in content else title, "" if tags == "[]" else tags, name or ""]
    return tokens.found_by(" ".join(said)) if any(said) else []


def read(text: str) -> Parsed:
    """What `parse` made of a text."""
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
    """How many stems there are, without reading all of it."""
    return int(text.split("\t", 2)[1]) if text else 0


def is_asking(text: str) -> bool:
    """Whether it asks something, without reading all of it."""
    return text.startswith("1")


def _joined(stems: list[str]) -> str:
    return pad("  ".join(stems)) if stems else ""
