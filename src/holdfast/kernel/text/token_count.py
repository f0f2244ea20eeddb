"""How many tokens a text has, in cl100k: counted, not estimated.

The vocabulary ships with the package and is searched where it lies, so that the first count takes milliseconds; the
tokeniser's own library needs a third of a second to start. What looks like a special token is text like any other.
"""

import re
import struct
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache, lru_cache
from heapq import heapify, heappop, heappush
from itertools import islice
from pathlib import Path
from typing import NamedTuple

LONGEST_TOKEN = 128
"""Bytes: no text has fewer tokens than this goes into its length."""
LONGEST_PIECE = 1024
"""Characters: a run longer than this is cut here before it is counted, which may count a token more for each cut."""

PIECE = re.compile(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\w]?+[^\W\d]++|\d{1,3}+| ?[^\s\w]++[\r\n]*+|\s++\Z|\s*[\r\n]|\s+(?!\S)|\s"
)
"""How cl100k divides a text: in words with what stands before them, up to three digits, signs, blanks."""
ASCII_PIECE = re.compile(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\nA-Za-z0-9]?+[A-Za-z]++|[0-9]{1,3}+| ?[^\t-\r A-Za-z0-9]++[\r\n]*+"
    r"|[\t-\r ]++\Z|[\t-\r ]*[\r\n]|[\t-\r ]+(?![^\t-\r ])|[\t-\r ]",
    re.ASCII,
)
"""The same of a text in ASCII, which is most of what is counted: nothing has to be put in the place of its signs."""
TOGETHER = 512
"""Pieces that are counted at once."""
_OUR_SPACES = "\x1c\x1d\x1e\x1f"
"""Blanks for Python's expressions, but not for those of cl100k."""
_ALIKE = {ord("_"): "-"} | dict.fromkeys(map(ord, _OUR_SPACES), "\x00")


class _Tokens(NamedTuple):
    """The tokens of one length, sorted, and their ranks."""

    length: int
    ranks: memoryview
    text: bytes

    def at(self, number: int) -> bytes:
        return self.text[number * self.length : (number + 1) * self.length]


def count(text: str, most: int | None = None) -> int:
    """The tokens of a text. Given `most`, counts no further than past it: then the answer is only known to be more."""
    if most is not None and len(text) > most * LONGEST_TOKEN:
        return most + 1
    found, pieces = 0, _pieces(text)
    while some := [*islice(pieces, TOGETHER)]:
        found += sum(map(_of_word, some)) if max(map(len, some)) <= LONGEST_TOKEN else sum(map(_of_piece, some))
        if most is not None and found > most:
            break
    return found


def _pieces(text: str) -> Iterator[str]:
    """What is counted by itself: words, digits, signs, blanks."""
    if text.isascii():
        return map(re.Match.group, ASCII_PIECE.finditer(text))
    return (text[found.start() : found.end()] for found in PIECE.finditer(_alike(text)))


def _of_piece(piece: str) -> int:
    """A run that has no end is counted in parts."""
    if len(piece) <= LONGEST_TOKEN:
        return _of_word(piece)
    return sum(_of_run(piece[at : at + LONGEST_PIECE]) for at in range(0, len(piece), LONGEST_PIECE))


def _alike(text: str) -> str:
    """A text that Python's expressions divide as cl100k divides this one, character by character."""
    others = {ord(sign): "0" for sign in set(text) if sign > "\x7f" and unicodedata.category(sign)[0] == "N"}
    return text.translate(_ALIKE | others)


@lru_cache(1 << 16)
def _of_word(word: str) -> int:
    """Remembered, because texts are made of the same words."""
    token = word.encode(errors="replace")
    return 1 if _rank(token) is not None else _joined(token)


@lru_cache(1 << 8)
def _of_run(run: str) -> int:
    """Remembered too, because whoever cuts a text to fit counts its beginning again and again."""
    return _joined(run.encode(errors="replace"))


def _joined(piece: bytes) -> int:
    """Joins the two neighbours that are the token of lowest rank, the leftmost first, until none are."""
    end = list(range(1, len(piece) + 1))
    start = list(range(-1, len(piece)))
    parts = len(piece)
    pairs = [(rank, at, at + 2) for at in range(len(piece) - 1) if (rank := _rank(piece[at : at + 2])) is not None]
    heapify(pairs)
    while pairs:
        _, at, to = heappop(pairs)
        middle = end[at]
        if not 0 < middle < to or end[middle] != to:
            continue
        end[at], end[middle], start[to] = to, 0, at
        parts -= 1
        wider = ((at, end[to]) if to < len(piece) else None, (start[at], to) if at else None)
        for left, right in filter(None, wider):
            if (rank := _rank(piece[left:right])) is not None:
                heappush(pairs, (rank, left, right))
    return parts


@lru_cache(1 << 16)
def _rank(token: bytes) -> int | None:
    """The rank of a token; None for what is none."""
    known = _vocabulary().get(len(token))
    if known is None:
        return None
    number = bisect_left(range(len(known.ranks)), token, key=known.at)
    return known.ranks[number] if number < len(known.ranks) and known.at(number) == token else None


@cache
def _vocabulary() -> dict[int, _Tokens]:
    """The tokens by their length, as tools/make_cl100k.py wrote them."""
    data = Path(__file__).with_name("cl100k.vocabulary").read_bytes()
    (lengths,) = struct.unpack_from("<I", data)
    sizes = list(struct.iter_unpack("<II", data[4 : 4 + 8 * lengths]))
    ranks_at = 4 + 8 * lengths
    text_at = ranks_at + 4 * sum(number for _, number in sizes)
    found = {}
    for length, number in sizes:
        ranks = memoryview(data)[ranks_at : ranks_at + 4 * number].cast("I")
        found[length] = _Tokens(length, ranks, data[text_at : text_at + length * number])
        ranks_at, text_at = ranks_at + 4 * number, text_at + length * number
    return found
