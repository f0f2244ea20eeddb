"""Character bigrams for scripts without blanks between words, such as Chinese and Thai."""

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
"""Letters and marks of scripts without blanks, for use inside the brackets of a regular expression."""

HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uffa1-\uffdc"
"""Hangul has blanks between words, but words carry endings, so parts of words must match too."""

_BLOCKS = (
    ("\u0e01", "\u17d3"),
    ("\u2e80", "\ud7fb"),
    ("\uf900", "\ufaff"),
    ("\uff66", "\uffdc"),
    ("\U00020000", "\U0003fffd"),
)
"""Ranges that contain these letters, and some others, but no quotes, dashes, arrows or emoji."""

_WORD = re.compile(r"[^\W_]+")


class _Patterns(NamedTuple):
    """Patterns that are slow to compile and rarely needed."""

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
    """Whether a text may contain letters of such a script; no false negatives."""
    return not text.isascii() and any(first <= sign <= last for sign in set(text) for first, last in _BLOCKS)


def index_bigrams(text: str) -> str:
    """Return additional index terms of a text; empty if blanks separate its words.

    Bigrams and single characters, which may be words; also adjacent words of other scripts, and names of emoji.
    """
    if not may_lack_blanks(text):
        return " ".join(emoji.emoji_words(text))
    paired, run, _ = _patterns()
    runs = [found for found in run.findall(text) if paired.search(found)]
    return " ".join([*(term for found in runs for term in (*terms(found), *_letters(found))), *emoji.emoji_words(text)])


def terms(text: str) -> list[str]:
    """Return the lower-case words of a text, and bigrams where words are not separated."""
    if not may_lack_blanks(text):
        return [word.lower() for word in _WORD.findall(text)]
    return [term for part in _patterns().part.findall(text) for term in _pairs(part)]


def _letters(run: str) -> list[str]:
    return [letter for letter in _patterns().paired.findall(unicodedata.normalize("NFKC", run)) if letter.isalnum()]


def _pairs(part: str) -> list[str]:
    """Split a run into bigrams without marks, which full-text parsers treat as blanks."""
    if not _patterns().paired.match(part):
        return [part.lower()]
    letters = "".join(letter for letter in unicodedata.normalize("NFKC", part) if letter.isalnum())
    return [letters[at : at + 2] for at in range(max(1, len(letters) - 1))] if letters else []
