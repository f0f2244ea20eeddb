"""Find and remove recalled text that was pasted: it stands between our markers."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

_OPENING_MARK = re.compile(
    r"(?:Memories recalled from a store stand between the two marks\.[^\n]{0,400}\n"
    r"|The text between these markers is recalled data\.[^\n]{0,400}\n"
    r"|Between the marks [0-9a-f]{16} stands what the store holds:[^\n]{0,400}\n"
    r"|Untrusted stored data between the [0-9a-f]{16} markers;[^\n]{0,400}\n)?"
    r"<(?P<kind>recalled|memory|answer|toon|text) (?P<id>[0-9A-Za-z]{6,64})(?=[ >])"
)


_CLOSING_MARK = re.compile(r"</(recalled|memory|answer|toon|text) ([0-9A-Za-z]{6,64})>\n?")
"""Closing marker of recalled text; the opening one includes the sentence before it."""


MAX_MARK_REST = 8_000
"""Characters of an opening marker between its id and its `>`."""


def remove_recalled(text: str) -> str:
    """Remove recalled text, which stands between our markers."""
    pieces, at = list[str](), 0
    for start, end in find_recalled(text):
        pieces.append(text[at:start])
        at = end
    return "".join((*pieces, text[at:]))


def find_recalled(text: str) -> list[tuple[int, int]]:
    """Find the ranges of recalled text, including our markers."""
    ends: dict[tuple[str, str], list[re.Match[str]]] = {}
    for closing in _CLOSING_MARK.finditer(text):
        ends.setdefault((closing[1], closing[2]), []).append(closing)
    found, at = list[tuple[int, int]](), 0
    for opening in _find_opening_marks(text) if ends else ():
        if opening.start >= at and (end := _find_end(opening, ends)) is not None:
            found.append((opening.start, end))
            at = end
    return found


class _OpeningMark(NamedTuple):
    """Opening marker: range, kind and id."""

    start: int
    end: int
    kind: str
    id: str


def _find_opening_marks(text: str) -> Iterator[_OpeningMark]:
    """Find opening markers. Each ends with `>` at the end of its line."""
    at = 0
    while match := _OPENING_MARK.search(text, at):
        at, rest = match.start() + 1, match.end()
        end = text.find("\n", rest, rest + MAX_MARK_REST + 3)
        if end > rest and text[end - 1] == ">" and (text[rest] == " " or end == rest + 1):
            at = end + 1
            yield _OpeningMark(match.start(), at, match["kind"], match["id"])


def _find_end(opening: _OpeningMark, ends: dict[tuple[str, str], list[re.Match[str]]]) -> int | None:
    """End of the first closing marker that matches an opening one."""
    found = ends.get((opening.kind, opening.id), [])
    place = bisect_left(found, opening.end, key=lambda closing: closing.start())
    return found[place].end() if place < len(found) else None
