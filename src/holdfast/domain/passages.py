"""A text in passages: pieces short enough to have one meaning, each with its place in the text."""

import re
from datetime import UTC, datetime
from itertools import islice, pairwise
from typing import NamedTuple

from .errors import Invalid
from .moment import SECOND, from_text
from .scripts import UNSEGMENTED

LONGEST = 32
"""Words of a passage."""

MOST_ASKED = 60
"""Words of a text that only asks; a longer one also tells."""

ROLES = frozenset("user assistant system human ai bot agent tool model developer function".split())
"""Speakers that are not people."""

_NAME = r"(?P<name>[A-Z][\w.'’-]{0,63}(?: [A-Z][\w.'’-]{0,63})?|user|assistant|system|human|ai|bot|agent|tool): "
_HEAD = re.compile(rf"\s*(?:\[(?P<time>[^\]\n]{{4,40}})\]\s*)?(?:{_NAME})?")
_SPOKEN_TIMES = ("%I:%M %p on %d %B, %Y", "%Y-%m-%d %H:%M", "%Y/%m/%d (%a) %H:%M", "%d %B %Y", "%d %B, %Y")
_LINE = re.compile(r"[^\n\r]+")
_SENTENCE_END = re.compile(r"(?<=[.!?…؟۔])[\"'”’»)\]]*\s+|(?<=[。！？｡।॥།။។])[」』”’）》】\s]*|[\n\r]+")
_WORD = re.compile(rf"[{UNSEGMENTED}]{{1,2}}|[^\s{UNSEGMENTED}]{{1,64}}")
"""Two characters count as a word where no blank parts words, and so many of a run that is no word at all."""


class Passage(NamedTuple):
    """From where to where in the text, and who says it there, if it is a transcript."""

    start: int
    end: int
    speaker: str | None = None


class Head(NamedTuple):
    """What may stand before a text, a time in brackets, a name and a colon, and where the text itself begins."""

    at: int | None
    speaker: str | None
    end: int


class _Line(NamedTuple):
    """A line of a text: who speaks, if it says so, and where the spoken begins and ends."""

    speaker: str | None
    start: int
    end: int


def passages(text: str) -> list[Passage]:
    """The passages of a text, in order. What stands before them, a time and a name, is left out.

    In a transcript every line is a passage of its own speaker's. A text that is not blank has at least one passage.
    """
    lines = _lines(text)
    names = [line.speaker for line in lines if line.speaker]
    if _are_turns(names, len(lines)):
        found = [piece for speaker, start, end in lines for piece in _pieces(text, start, end, speaker)]
    else:
        found = _pieces(text, head(text).end if len(names) < 2 else 0, len(text))
    return found or _pieces(text, 0, len(text))


def _are_turns(names: list[str], lines: int) -> bool:
    """Half of the lines of a transcript begin with a name, and someone speaks twice or has a role.

    Many names that stand once each are not speakers: they are what the lines of a list tell about.
    """
    recur = len(set(names)) < len(names) or any(name.lower() in ROLES for name in names)
    return lines > 1 and 2 * len(names) >= lines and recur


def asks(text: str) -> bool:
    """Whether a text ends with a question and tells little besides."""
    return text.rstrip().endswith(("?", "？", "؟")) and _words(text, 0, len(text), MOST_ASKED + 1) <= MOST_ASKED


def head(text: str) -> Head:
    """Who says a text and when, as far as its beginning tells. Other words in brackets belong to the text."""
    found = _HEAD.match(text)
    at = spoken_time(found["time"]) if found and found["time"] else None
    if not found or (at is None and found["name"] is None):
        return Head(None, None, 0)
    return Head(at, found["name"], found.end())


def spoken_time(text: str) -> int | None:
    """A time as transcripts write it; None if it reads as something else."""
    try:
        return from_text(text, "occurred_at")
    except Invalid:
        pass
    for form in _SPOKEN_TIMES:
        try:
            at = datetime.strptime(text.strip(), form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return int(at.timestamp()) * SECOND
    return None


def _lines(text: str) -> list[_Line]:
    found = []
    for line in _LINE.finditer(text):
        opening = _HEAD.match(text, *line.span())
        if opening and line[0].strip():
            found.append(_Line(opening["name"], opening.end() if opening["name"] else line.start(), line.end()))
    return found


def _pieces(text: str, start: int, end: int, speaker: str | None = None) -> list[Passage]:
    """Whole sentences together up to the longest passage; a longer sentence is cut."""
    found: list[Passage] = []
    opened, words = start, 0
    for first, last in _sentences(text, start, end):
        count = _words(text, first, last, LONGEST + 1)
        if words + count > LONGEST:
            found.append(Passage(opened, first, speaker))
            opened, words = first, 0
        if count > LONGEST:
            found += _cut(text, first, last, speaker)
            opened = last
        else:
            words += count
    found.append(Passage(opened, end, speaker))
    return [piece for wide in found if (piece := _trimmed(text, wide)).start < piece.end]


def _sentences(text: str, start: int, end: int) -> list[tuple[int, int]]:
    ends = [found.end() for found in _SENTENCE_END.finditer(text, start, end)]
    bounds = sorted({start, *ends, end})
    return list(pairwise(bounds))


def _words(text: str, start: int, end: int, most: int) -> int:
    """How many words there are, counted up to the most that matter."""
    return sum(1 for _ in islice(_WORD.finditer(text, start, end), most))


def _cut(text: str, start: int, end: int, speaker: str | None) -> list[Passage]:
    """Even pieces of a sentence that is too long."""
    words = [word.start() for word in _WORD.finditer(text, start, end)]
    pieces = -(-len(words) // LONGEST)
    bounds = [words[number * len(words) // pieces] for number in range(pieces)] + [end]
    return [Passage(first, last, speaker) for first, last in pairwise(bounds)]


def _trimmed(text: str, piece: Passage) -> Passage:
    said = text[piece.start : piece.end]
    start = piece.start + len(said) - len(said.lstrip())
    return piece._replace(start=start, end=start + len(said.strip()))
