"""Split a long text into atoms at sentence ends: verbatim and complete."""

import re
from collections.abc import Collection, Iterator

from holdfast.kernel.text.sentences import Span, sentences
from holdfast.kernel.text.token_count import count

_WORD = re.compile(r"\S+\s*")
TITLE_LENGTH = 60


def atoms(text: str, most: int, breaks: Collection[int] = ()) -> list[Span]:
    """Return the spans of the atoms: as many whole sentences as fit into `most` tokens.

    `breaks` are the numbers of sentences that start a new topic.
    """
    found: list[Span] = []
    for place, span in enumerate(_pieces(text, most)):
        sentence, piece = span
        joined = (found[-1][0], piece[1]) if found else piece
        if place and sentence not in breaks and count(text[slice(*joined)], most) <= most:
            found[-1] = joined
        else:
            found.append(piece)
    return found


def _pieces(text: str, most: int) -> Iterator[tuple[int, Span]]:
    """Yield sentences with their number; long ones in parts, where continuing parts have the number -1."""
    for number, (start, end) in enumerate(sentences(text)):
        for part, span in enumerate(_parts(text, start, end, most)):
            yield (-1 if part else number), span


def _parts(text: str, start: int, end: int, most: int) -> Iterator[Span]:
    if count(text[start:end], most) <= most:
        yield start, end
        return
    begin = start
    for word in _WORD.finditer(text, start, end):
        if count(text[begin : word.end()].rstrip(), most) > most and word.start() > begin:
            yield begin, begin + len(text[begin : word.start()].rstrip())
            begin = word.start()
        while count(text[begin : word.end()].rstrip(), most) > most:
            cut = _longest(text, begin, word.end(), most)
            yield begin, cut
            begin = cut
    if text[begin:end].strip():
        yield begin, begin + len(text[begin:end].rstrip())


def _longest(text: str, start: int, end: int, most: int) -> int:
    """Find the longest fitting prefix of a run without spaces; at least one character."""
    width = most
    while start + width < end and count(text[start : start + width], most) <= most:
        width *= 2
    low, high = start + 1, min(end, start + width)
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[start:middle], most) <= most:
            low = middle
        else:
            high = middle - 1
    return low


def title_of(source: str, number: int, of: int, text: str) -> str:
    """Build the title of an atom: source title, number and first words."""
    begins = " ".join(text.split())
    begins = begins if len(begins) <= TITLE_LENGTH else begins[: TITLE_LENGTH - 1].rstrip() + "…"
    behind = f" ({number}/{of}): {begins}"
    room = 512 - len(behind.encode())
    return source.encode()[:room].decode(errors="ignore").rstrip() + behind
