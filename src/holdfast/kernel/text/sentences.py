"""Split a text into sentences, with exact positions."""

import re
from itertools import pairwise

Span = tuple[int, int]

_END = re.compile(r"(?<=[.!?…؟۔])[\"'”’»)\]]*\s+|(?<=[。！？｡।॥།။။។])[」』”’）》】\s]*|(?<![ \t])[ \t]*+[\n\r]+\s*")
_SHORT = re.compile(
    r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|cf|No|Nr|approx|ca|Inc|Ltd|Co|Fig|e\.g|i\.e|z\.B|d\.h))\.\s+\Z"
)
"""Abbreviations, whose full stop does not end a sentence."""
MAX_ABBREVIATION = 12


def split_sentences(text: str) -> list[Span]:
    """Return start and end of each sentence or line, without blanks; together they cover the text."""
    ends = [found.end() for found in _END.finditer(text) if not _is_short(text, found)]
    bounds = [0, *ends, len(text)]
    spans = (trim_span(text, start, end) for start, end in pairwise(bounds))
    return [(start, end) for start, end in spans if start < end]


def _is_short(text: str, end: re.Match[str]) -> bool:
    if "\n" in end[0] or "\r" in end[0]:
        return False
    return _SHORT.search(text, max(0, end.start() - MAX_ABBREVIATION), end.end()) is not None


def trim_span(text: str, start: int, end: int) -> Span:
    """Trim the blanks at both ends of a span."""
    said = text[start:end]
    start += len(said) - len(said.lstrip())
    return start, start + len(said.strip())
