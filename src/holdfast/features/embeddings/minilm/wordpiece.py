"""WordPiece tokenizer, as in BERT: lower case, without accents."""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from unicodedata import category, normalize

MAX_WORD_CHARACTERS = 100
CACHED_WORDS = 20_000
_IDEOGRAPH = (
    "([\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b73f"
    "\U0002b740-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f])"
)
_ASCII_MARKS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


class WordPiece:
    """Splits words into the longest pieces of a fixed vocabulary."""

    def __init__(self, vocabulary: Path) -> None:
        pieces = vocabulary.read_text("utf-8").split("\n")
        self._ids = dict(zip(pieces, range(len(pieces)), strict=True))
        self._unknown, self._begin, self._end = (self._ids[name] for name in ("[UNK]", "[CLS]", "[SEP]"))
        self._cached_pieces = lru_cache(CACHED_WORDS)(self._split_word)

    def encode(self, text: str, max_ids: int) -> list[int]:
        """Encode a text as at most `max_ids` ids, including the begin and end markers."""
        found: list[int] = []
        for word in split_words(text):
            found += self._cached_pieces(word) if len(word) <= MAX_WORD_CHARACTERS else [self._unknown]
            if len(found) >= max_ids - 2:
                break
        return [self._begin, *found[: max_ids - 2], self._end]

    def measure_known_share(self, text: str, max_ids: int) -> float:
        """Return the share of a text's pieces that are in the vocabulary; 0 for a text without pieces."""
        pieces = self.encode(text, max_ids)[1:-1]
        return 1 - pieces.count(self._unknown) / len(pieces) if pieces else 0.0

    def _split_word(self, word: str) -> list[int]:
        """Return the ids of a word's pieces, or that of the unknown word."""
        found, start = [], 0
        while start < len(word):
            end = self._find_piece_end(word, start)
            if not end:
                return [self._unknown]
            found.append(self._ids[_piece(word, start, end)])
            start = end
        return found

    def _find_piece_end(self, word: str, start: int) -> int:
        """Return the end of the longest piece that begins here; 0 if there is none."""
        ends = range(len(word), start, -1)
        return next((end for end in ends if _piece(word, start, end) in self._ids), 0)


def _piece(word: str, start: int, end: int) -> str:
    return f"##{word[start:end]}" if start else word[:end]


def split_words(text: str) -> Iterator[str]:
    """Split a text into words and punctuation marks, as BERT does."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(" " if _is_blank(letter) else letter for letter in text if not _is_control(letter))
    text = text.lower() if text.isascii() else _normalise(text)
    for run in text.split():
        yield from (run,) if run.isalnum() else _split_marks(run)


def _normalise(text: str) -> str:
    """Separate ideographs, remove accents, lower the case letter by letter, because BERT has no final sigma."""
    apart = normalize("NFD", re.sub(_IDEOGRAPH, r" \1 ", text))
    return "".join(letter.lower() for letter in apart if category(letter) != "Mn")


def _split_marks(run: str) -> Iterator[str]:
    """Split a run of letters and marks; each mark is a word."""
    start = 0
    for at, letter in enumerate(run):
        if _is_mark(letter):
            yield from (part for part in (run[start:at], letter) if part)
            start = at + 1
    if start < len(run):
        yield run[start:]


def _is_mark(letter: str) -> bool:
    return letter in _ASCII_MARKS or category(letter).startswith("P")


def _is_blank(letter: str) -> bool:
    return letter in " \t\n\r" or category(letter) == "Zs"


def _is_control(letter: str) -> bool:
    return letter in "\x00\ufffd" or (letter not in "\t\n\r" and category(letter) in ("Cc", "Cf", "Co"))
