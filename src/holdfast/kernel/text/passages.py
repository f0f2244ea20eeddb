"""A text in passages: pieces short enough to have one meaning, each with its place in the text."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import islice, pairwise
from typing import NamedTuple

from holdfast.kernel.errors import Invalid
from holdfast.kernel.text.bigrams import UNSEGMENTED, may_lack_blanks
from holdfast.kernel.timestamps import SECOND, from_text

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
_WORD = re.compile(r"\S{1,64}")
"""So many characters of a run count as a word, if it is none at all."""


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
    word = _word(text)
    if (short := _short(text, word)) is not None:
        return short
    lines = _lines(text)
    names = [line.speaker for line in lines if line.speaker]
    if _are_turns(names, len(lines)):
        found = [piece for line in lines for piece in _pieces(text, line, word)]
    else:
        found = _pieces(text, _Line(None, head(text).end if len(names) < 2 else 0, len(text)), word)
    return found or _pieces(text, _Line(None, 0, len(text)), word)


def _short(text: str, word: re.Pattern[str]) -> list[Passage] | None:
    """The one passage of a single line that is short enough for it; None if it is not."""
    if "\n" in text or "\r" in text or len(text) > 20 * LONGEST:
        return None
    start, end = _trimmed(text, head(text).end, len(text))
    if start >= end or _count(word.finditer(text, start, end), LONGEST + 1) > LONGEST:
        return None
    return [Passage(start, end)]


def _are_turns(names: list[str], lines: int) -> bool:
    """Half of the lines of a transcript begin with a name, and someone speaks twice or has a role.

    Many names that stand once each are not speakers: they are what the lines of a list tell about.
    """
    recur = len(set(names)) < len(names) or any(name.lower() in ROLES for name in names)
    return lines > 1 and 2 * len(names) >= lines and recur


def asks(text: str) -> bool:
    """Whether a text ends with a question and tells little besides."""
    if not ends_in_question_mark(text):
        return False
    return _count(_word(text).finditer(text), MOST_ASKED + 1) <= MOST_ASKED


def ends_in_question_mark(text: str) -> bool:
    return text.rstrip().endswith(("?", "？", "؟"))


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


def _word(text: str) -> re.Pattern[str]:
    """What counts as a word of a text."""
    return _word_or_two_letters() if may_lack_blanks(text) else _WORD


@cache
def _word_or_two_letters() -> re.Pattern[str]:
    """Two characters count as a word where no blank parts words. It takes long to compile and is seldom needed."""
    return re.compile(rf"[{UNSEGMENTED}]{{1,2}}|[^\s{UNSEGMENTED}]{{1,64}}")


def _count(words: Iterator[re.Match[str]], most: int) -> int:
    """How many words there are, counted up to the most that matter."""
    return sum(1 for _ in islice(words, most))


def _lines(text: str) -> list[_Line]:
    found = []
    for line in _LINE.finditer(text):
        opening = _HEAD.match(text, *line.span())
        if opening and line[0].strip():
            found.append(_Line(opening["name"], opening.end() if opening["name"] else line.start(), line.end()))
    return found


def _pieces(text: str, line: _Line, word: re.Pattern[str]) -> list[Passage]:
    """Whole sentences together up to the longest passage; a longer sentence is cut."""
    found: list[tuple[int, int]] = []
    opened, words = line.start, 0
    for first, last in _sentences(text, line.start, line.end):
        count = _count(word.finditer(text, first, last), LONGEST + 1)
        if words + count > LONGEST:
            found.append((opened, first))
            opened, words = first, 0
        if count > LONGEST:
            found += _cut([one.start() for one in word.finditer(text, first, last)], last)
            opened = last
        else:
            words += count
    spans = (_trimmed(text, start, end) for start, end in [*found, (opened, line.end)])
    return [Passage(start, end, line.speaker) for start, end in spans if start < end]


def _sentences(text: str, start: int, end: int) -> list[tuple[int, int]]:
    ends = [found.end() for found in _SENTENCE_END.finditer(text, start, end)]
    bounds = sorted({start, *ends, end})
    return list(pairwise(bounds))


def _cut(words: list[int], end: int) -> list[tuple[int, int]]:
    """Even pieces of a sentence that is too long, given where its words begin."""
    pieces = -(-len(words) // LONGEST)
    return list(pairwise([*(words[number * len(words) // pieces] for number in range(pieces)), end]))


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    said = text[start:end]
    start += len(said) - len(said.lstrip())
    return start, start + len(said.strip())
