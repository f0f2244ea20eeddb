"""Where the sentences of a text are: exact places, so that what is cut out of it is still the text."""

import re
from itertools import pairwise

Span = tuple[int, int]

_END = re.compile(r"(?<=[.!?…؟۔])[\"'”’»)\]]*\s+|(?<=[。！？｡।॥།။။។])[」』”’）》】\s]*|(?<![ \t])[ \t]*+[\n\r]+\s*")
_SHORT = re.compile(
    r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|cf|No|Nr|approx|ca|Inc|Ltd|Co|Fig|e\.g|i\.e|z\.B|d\.h))\.\s+\Z"
)
"""What ends with a full stop and is no sentence's end."""
LONGEST_SHORT = 12


def sentences(text: str) -> list[Span]:
    """From where to where each sentence or line is, blanks around it left out; together they are all that is said."""
    ends = [found.end() for found in _END.finditer(text) if not _is_short(text, found)]
    bounds = [0, *ends, len(text)]
    spans = (trimmed(text, start, end) for start, end in pairwise(bounds))
    return [(start, end) for start, end in spans if start < end]


def _is_short(text: str, end: re.Match[str]) -> bool:
    if "\n" in end[0] or "\r" in end[0]:
        return False
    return _SHORT.search(text, max(0, end.start() - LONGEST_SHORT), end.end()) is not None


def trimmed(text: str, start: int, end: int) -> Span:
    """A span without the blanks at its ends."""
    said = text[start:end]
    start += len(said) - len(said.lstrip())
    return start, start + len(said.strip())
