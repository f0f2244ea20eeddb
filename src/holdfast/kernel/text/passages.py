"""Split a text into passages, short enough for one embedding each, with their positions."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import islice, pairwise
from typing import NamedTuple

from holdfast.kernel.errors import Invalid
from holdfast.kernel.text.words import UNSEGMENTED, may_lack_blanks
from holdfast.kernel.timestamps import SECOND, parse_timestamp

MAX_PASSAGE_WORDS = 32
"""Maximum number of words of a passage."""

MAX_QUESTION_WORDS = 60
"""Maximum number of words of a pure question."""

ROLES = frozenset("user assistant system human ai bot agent tool model developer function".split())
"""Speaker names that are roles, not people."""

_NAME = r"(?P<name>[A-Z][\w.'’-]{0,63}(?: [A-Z][\w.'’-]{0,63})?|user|assistant|system|human|ai|bot|agent|tool): "
_HEAD = re.compile(rf"\s*(?:\[(?P<time>[^\]\n]{{4,40}})\]\s*)?(?:{_NAME})?")
_SPOKEN_TIMES = ("%I:%M %p on %d %B, %Y", "%Y-%m-%d %H:%M", "%Y/%m/%d (%a) %H:%M", "%d %B %Y", "%d %B, %Y")
_LINE = re.compile(r"[^\n\r]+")
_SENTENCE_END = re.compile(r"(?<=[.!?…؟۔])[\"'”’»)\]]*\s+|(?<=[。！？｡।॥།။។])[」』”’）》】\s]*|[\n\r]+")
_WORD = re.compile(r"\S{1,64}")
"""Longer runs count as one word per 64 characters."""


class Passage(NamedTuple):
    """Start, end and, in a transcript, speaker of a passage."""

    start: int
    end: int
    speaker: str | None = None


class Head(NamedTuple):
    """The head of a text (time in brackets, name and colon), and where the text itself starts."""

    at: int | None
    speaker: str | None
    end: int


class _Line(NamedTuple):
    """A line of a text: speaker, if given, and start and end of its content."""

    speaker: str | None
    start: int
    end: int


def split_passages(text: str) -> list[Passage]:
    """Split a text into passages, in order, without the head.

    In a transcript, each line has its own passages and speaker. A non-blank text has at least one passage.
    """
    word = _word(text)
    if (short := _single_passage(text, word)) is not None:
        return short
    lines = _lines(text)
    names = [line.speaker for line in lines if line.speaker]
    if _are_turns(names, len(lines)):
        found = [piece for line in lines for piece in _pieces(text, line, word)]
    else:
        found = _pieces(text, _Line(None, parse_head(text).end if len(names) < 2 else 0, len(text)), word)
    return found or _pieces(text, _Line(None, 0, len(text)), word)


def _single_passage(text: str, word: re.Pattern[str]) -> list[Passage] | None:
    """Return the single passage of a short one-line text, else None."""
    if "\n" in text or "\r" in text or len(text) > 20 * MAX_PASSAGE_WORDS:
        return None
    start, end = _trim(text, parse_head(text).end, len(text))
    if start >= end or _count(word.finditer(text, start, end), MAX_PASSAGE_WORDS + 1) > MAX_PASSAGE_WORDS:
        return None
    return [Passage(start, end)]


def _are_turns(names: list[str], lines: int) -> bool:
    """Whether a text is a transcript: half of its lines start with a name, and a name recurs or is a role.

    Names that occur only once each are list items, not speakers.
    """
    recur = len(set(names)) < len(names) or any(name.lower() in ROLES for name in names)
    return lines > 1 and 2 * len(names) >= lines and recur


def is_question(text: str) -> bool:
    """Whether a text is a short text that ends with a question mark."""
    if not ends_in_question_mark(text):
        return False
    return _count(_word(text).finditer(text), MAX_QUESTION_WORDS + 1) <= MAX_QUESTION_WORDS


def ends_in_question_mark(text: str) -> bool:
    return text.rstrip().endswith(("?", "？", "؟"))


def parse_head(text: str) -> Head:
    """Parse time and speaker at the start of a text. Other bracketed words belong to the text."""
    found = _HEAD.match(text)
    at = parse_spoken_time(found["time"]) if found and found["time"] else None
    if not found or (at is None and found["name"] is None):
        return Head(None, None, 0)
    return Head(at, found["name"], found.end())


def parse_spoken_time(text: str) -> int | None:
    """Parse a time in the formats of transcripts; None if it is something else."""
    try:
        return parse_timestamp(text, "occurred_at")
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
    """Return the pattern of a word for a text."""
    return _word_or_two_letters() if not text.isascii() and may_lack_blanks(text) else _WORD


@cache
def _word_or_two_letters() -> re.Pattern[str]:
    """Pattern that counts two characters of scripts without blanks as a word. Slow to compile and rarely needed."""
    return re.compile(rf"[{UNSEGMENTED}]{{1,2}}|[^\s{UNSEGMENTED}]{{1,64}}")


def _count(words: Iterator[re.Match[str]], limit: int) -> int:
    """Count words, up to a limit."""
    return sum(1 for _ in islice(words, limit))


def _lines(text: str) -> list[_Line]:
    found = []
    for line in _LINE.finditer(text):
        opening = _HEAD.match(text, *line.span())
        if opening and line[0].strip():
            found.append(_Line(opening["name"], opening.end() if opening["name"] else line.start(), line.end()))
    return found


def _pieces(text: str, line: _Line, word: re.Pattern[str]) -> list[Passage]:
    """Join whole sentences up to the maximum length; split longer sentences."""
    found: list[tuple[int, int]] = []
    opened, words = line.start, 0
    for first, last in _sentences(text, line.start, line.end):
        count = _count(word.finditer(text, first, last), MAX_PASSAGE_WORDS + 1)
        if words + count > MAX_PASSAGE_WORDS:
            found.append((opened, first))
            opened, words = first, 0
        if count > MAX_PASSAGE_WORDS:
            found += _cut([one.start() for one in word.finditer(text, first, last)], last)
            opened = last
        else:
            words += count
    spans = (_trim(text, start, end) for start, end in [*found, (opened, line.end)])
    return [Passage(start, end, line.speaker) for start, end in spans if start < end]


def _sentences(text: str, start: int, end: int) -> list[tuple[int, int]]:
    ends = [found.end() for found in _SENTENCE_END.finditer(text, start, end)]
    bounds = sorted({start, *ends, end})
    return list(pairwise(bounds))


def _cut(words: list[int], end: int) -> list[tuple[int, int]]:
    """Split a long sentence into even pieces, given the starts of its words."""
    pieces = -(-len(words) // MAX_PASSAGE_WORDS)
    return list(pairwise([*(words[number * len(words) // pieces] for number in range(pieces)), end]))


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    said = text[start:end]
    start += len(said) - len(said.lstrip())
    return start, start + len(said.strip())
