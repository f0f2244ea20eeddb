"""Scripts that put no blanks between words: pairs of characters stand for the words there."""

import re
import unicodedata
from functools import cache
from typing import NamedTuple

from holdfast.kernel.text import emoji

_HAN = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
)
_KANA = "\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_THAI_LAO = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf"
_TIBETAN_MYANMAR_KHMER = "\u0f40-\u0fbc\u1000-\u103f\u1050-\u109d\ua9e0-\ua9ef\uaa60-\uaa7f\u1780-\u17d3"

UNSEGMENTED = _HAN + _KANA + _THAI_LAO + _TIBETAN_MYANMAR_KHMER
"""Letters and marks that follow one another without a blank, for use inside the brackets of a regular expression."""

HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uffa1-\uffdc"
"""Its words have blanks between them, but carry endings: a part of a word must be found too."""

_BLOCKS = (
    ("\u0e01", "\u17d3"),
    ("\u2e80", "\ud7fb"),
    ("\uf900", "\ufaff"),
    ("\uff66", "\uffdc"),
    ("\U00020000", "\U0003fffd"),
)
"""Where these letters are found, with others among them; quotes, dashes, arrows and emoji are elsewhere."""

_WORD = re.compile(r"[^\W_]+")


class _Patterns(NamedTuple):
    """What takes long to compile and is seldom needed."""

    paired: re.Pattern[str]
    run: re.Pattern[str]
    part: re.Pattern[str]


@cache
def _patterns() -> _Patterns:
    paired = f"{UNSEGMENTED}{HANGUL}"
    return _Patterns(
        re.compile(f"[{paired}]"), re.compile(rf"(?:[^\W_]|[{paired}])+"), re.compile(rf"[{paired}]+|[^\W_{paired}]+")
    )


def may_lack_blanks(text: str) -> bool:
    """Whether letters of such a script may be in a text; wrong at times about a rare sign, never about a letter."""
    return not text.isascii() and any(first <= sign <= last for sign in set(text) for first, last in _BLOCKS)


def spelled(text: str) -> str:
    """What an index keeps beside a text so that a part of a sentence is found; empty if blanks part its words.

    Pairs of characters, and each by itself: it may be a word. Words of other scripts that touch them stand there too,
    and the names of emoji.
    """
    if not may_lack_blanks(text):
        return " ".join(emoji.names(text))
    paired, run, _ = _patterns()
    runs = [found for found in run.findall(text) if paired.search(found)]
    return " ".join([*(term for found in runs for term in (*terms(found), *_letters(found))), *emoji.names(text)])


def terms(text: str) -> list[str]:
    """The lower-case words of a text, and pairs of characters where words are not told apart."""
    if not may_lack_blanks(text):
        return [word.lower() for word in _WORD.findall(text)]
    return [term for part in _patterns().part.findall(text) for term in _pairs(part)]


def _letters(run: str) -> list[str]:
    return [letter for letter in _patterns().paired.findall(unicodedata.normalize("NFKC", run)) if letter.isalnum()]


def _pairs(part: str) -> list[str]:
    """Marks are left out, because full-text parsers take them for blanks."""
    if not _patterns().paired.match(part):
        return [part.lower()]
    letters = "".join(letter for letter in unicodedata.normalize("NFKC", part) if letter.isalnum())
    return [letters[at : at + 2] for at in range(max(1, len(letters) - 1))] if letters else []
