"""Split a long text into atoms at sentence ends: verbatim and complete."""

import re
from collections.abc import Collection, Iterator

from holdfast.kernel.text.sentences import Span, split_sentences
from holdfast.kernel.text.token_count import count_tokens

_WORD = re.compile(r"\S+\s*")
MAX_TITLE_LENGTH = 60


def split_into_atoms(text: str, max_tokens: int, breaks: Collection[int] = ()) -> list[Span]:
    """Return the spans of the atoms: as many whole sentences as fit into `max_tokens`.

    `breaks` are the numbers of sentences that start a new topic.
    """
    found: list[Span] = []
    for place, span in enumerate(_split_sentences(text, max_tokens)):
        sentence, piece = span
        joined = (found[-1][0], piece[1]) if found else piece
        if place and sentence not in breaks and count_tokens(text[slice(*joined)], max_tokens) <= max_tokens:
            found[-1] = joined
        else:
            found.append(piece)
    return found


def _split_sentences(text: str, max_tokens: int) -> Iterator[tuple[int, Span]]:
    """Yield sentences with their number; long ones in parts, where continuing parts have the number -1."""
    for number, (start, end) in enumerate(split_sentences(text)):
        for part, span in enumerate(_split_sentence(text, start, end, max_tokens)):
            yield (-1 if part else number), span


def _split_sentence(text: str, start: int, end: int, max_tokens: int) -> Iterator[Span]:
    if count_tokens(text[start:end], max_tokens) <= max_tokens:
        yield start, end
        return
    begin = start
    for word in _WORD.finditer(text, start, end):
        if count_tokens(text[begin : word.end()].rstrip(), max_tokens) > max_tokens and word.start() > begin:
            yield begin, begin + len(text[begin : word.start()].rstrip())
            begin = word.start()
        while count_tokens(text[begin : word.end()].rstrip(), max_tokens) > max_tokens:
            cut = _find_longest_fit(text, begin, word.end(), max_tokens)
            yield begin, cut
            begin = cut
    if text[begin:end].strip():
        yield begin, begin + len(text[begin:end].rstrip())


def _find_longest_fit(text: str, start: int, end: int, max_tokens: int) -> int:
    """Find the longest fitting prefix of a run without spaces; at least one character."""
    width = max_tokens
    while start + width < end and count_tokens(text[start : start + width], max_tokens) <= max_tokens:
        width *= 2
    low, high = start + 1, min(end, start + width)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(text[start:middle], max_tokens) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    return low


def build_atom_title(source: str, number: int, of: int, text: str) -> str:
    """Build the title of an atom: source title, number and first words."""
    begins = " ".join(text.split())
    begins = begins if len(begins) <= MAX_TITLE_LENGTH else begins[: MAX_TITLE_LENGTH - 1].rstrip() + "…"
    behind = f" ({number}/{of}): {begins}"
    room = 512 - len(behind.encode())
    return source.encode()[:room].decode(errors="ignore").rstrip() + behind
