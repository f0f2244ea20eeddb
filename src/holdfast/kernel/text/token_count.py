"""Count the tokens of a text in cl100k, exactly.

The vocabulary is bundled and searched in place, so that the first count takes milliseconds; the tokenizer's own library
needs 0.3 seconds to start. Special tokens are treated as plain text.
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

MAX_TOKEN_BYTES = 128
"""Length of the longest token in bytes."""
MAX_PIECE_CHARS = 1024
"""Longer runs are split at this many characters, which may count one token more per split."""

PIECE = re.compile(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\w]?+[^\W\d]++|\d{1,3}+| ?[^\s\w]++[\r\n]*+|\s++\Z|\s*[\r\n]|\s+(?!\S)|\s"
)
"""How cl100k splits a text: words with a preceding character, up to three digits, symbols, blanks."""
ASCII_PIECE = re.compile(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\nA-Za-z0-9]?+[A-Za-z]++|[0-9]{1,3}+| ?[^\t-\r A-Za-z0-9]++[\r\n]*+"
    r"|[\t-\r ]++\Z|[\t-\r ]*[\r\n]|[\t-\r ]+(?![^\t-\r ])|[\t-\r ]",
    re.ASCII,
)
"""The same for ASCII texts, which are most common and need no character mapping."""
PIECES_PER_BATCH = 512
"""Pieces per batch."""
_OUR_SPACES = "\x1c\x1d\x1e\x1f"
"""Characters that are blanks for Python but not for cl100k."""
_ALIKE = {ord("_"): "-"} | dict.fromkeys(map(ord, _OUR_SPACES), "\x00")


class _Tokens(NamedTuple):
    """Sorted tokens of one length, with their ranks."""

    length: int
    ranks: memoryview
    text: bytes

    def at(self, number: int) -> bytes:
        return self.text[number * self.length : (number + 1) * self.length]


def count_tokens(text: str, limit: int | None = None) -> int:
    """Count the tokens of a text. With `limit`, stop above it: the result is then only a lower bound."""
    if limit is not None and len(text) > limit * MAX_TOKEN_BYTES:
        return limit + 1
    found, pieces = 0, _pieces(text)
    while some := [*islice(pieces, PIECES_PER_BATCH)]:
        found += sum(map(_count_word, some)) if max(map(len, some)) <= MAX_TOKEN_BYTES else sum(map(_count_piece, some))
        if limit is not None and found > limit:
            break
    return found


def _pieces(text: str) -> Iterator[str]:
    """Split a text into pieces: words, digits, symbols, blanks."""
    if text.isascii():
        return map(re.Match.group, ASCII_PIECE.finditer(text))
    return (text[found.start() : found.end()] for found in PIECE.finditer(_alike(text)))


def _count_piece(piece: str) -> int:
    """Count a piece; very long ones in parts."""
    if len(piece) <= MAX_TOKEN_BYTES:
        return _count_word(piece)
    return sum(_count_run(piece[at : at + MAX_PIECE_CHARS]) for at in range(0, len(piece), MAX_PIECE_CHARS))


def _alike(text: str) -> str:
    """Map characters so that Python's patterns split the text as cl100k does."""
    others = {ord(sign): "0" for sign in set(text) if sign > "\x7f" and unicodedata.category(sign)[0] == "N"}
    return text.translate(_ALIKE | others)


@lru_cache(1 << 16)
def _count_word(word: str) -> int:
    """Count a word. Cached, because words repeat."""
    token = word.encode(errors="replace")
    return 1 if _rank(token) is not None else _count_merged(token)


@lru_cache(1 << 8)
def _count_run(run: str) -> int:
    """Count a run. Cached, because fitting a text to a budget counts its start repeatedly."""
    return _count_merged(run.encode(errors="replace"))


def _count_merged(piece: bytes) -> int:
    """Count tokens by byte-pair merges: the pair with the lowest rank first, leftmost on ties."""
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
    """Return the rank of a token, or None."""
    known = _vocabulary().get(len(token))
    if known is None:
        return None
    number = bisect_left(range(len(known.ranks)), token, key=known.at)
    return known.ranks[number] if number < len(known.ranks) and known.at(number) == token else None


@cache
def _vocabulary() -> dict[int, _Tokens]:
    """Load the tokens by length, as written by tools/make_cl100k.py."""
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
