"""A long text in pieces that say one thing each: cut at the ends of sentences, nothing reworded, nothing left out."""

import re
from collections.abc import Collection, Iterator

from holdfast.kernel.text.sentences import Span, sentences
from holdfast.kernel.text.token_count import count

_WORD = re.compile(r"\S+\s*")
TITLE_LENGTH = 60


def atoms(text: str, most: int, breaks: Collection[int] = ()) -> list[Span]:
    """Where the pieces of a text are, each of at most so many tokens, whole sentences together as far as they fit.

    `breaks` are the places in the list of sentences at which something else begins.
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
    """Sentences by their number, those that are too long in parts; a part that goes on breaks nothing."""
    for number, (start, end) in enumerate(sentences(text)):
        for part, span in enumerate(_parts(text, start, end, most)):
            yield (-1 if part else number), span


def _parts(text: str, start: int, end: int, most: int) -> Iterator[Span]:
    if count(text[start:end], most) <= most:
        yield start, end
        return
    opened = start
    for word in _WORD.finditer(text, start, end):
        if count(text[opened : word.end()].rstrip(), most) > most and word.start() > opened:
            yield opened, opened + len(text[opened : word.start()].rstrip())
            opened = word.start()
        while count(text[opened : word.end()].rstrip(), most) > most:
            cut = _longest(text, opened, word.end(), most)
            yield opened, cut
            opened = cut
    if text[opened:end].strip():
        yield opened, opened + len(text[opened:end].rstrip())


def _longest(text: str, start: int, end: int, most: int) -> int:
    """The furthest place to which a run without blanks fits; a character at least."""
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
    """What a piece is called: after its source, its place in it, and how it begins."""
    begins = " ".join(text.split())
    begins = begins if len(begins) <= TITLE_LENGTH else begins[: TITLE_LENGTH - 1].rstrip() + "…"
    behind = f" ({number}/{of}): {begins}"
    room = 512 - len(behind.encode())
    return source.encode()[:room].decode(errors="ignore").rstrip() + behind
