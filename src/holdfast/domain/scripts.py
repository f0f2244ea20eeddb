"""Scripts that put no blanks between words: pairs of characters stand for the words there."""

import re
import unicodedata

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

_PAIRED = re.compile(f"[{UNSEGMENTED}{HANGUL}]")
_RUN = re.compile(rf"(?:[^\W_]|[{UNSEGMENTED}{HANGUL}])+")
_PART = re.compile(rf"[{UNSEGMENTED}{HANGUL}]+|[^\W_{UNSEGMENTED}{HANGUL}]+")


def spelled(text: str) -> str:
    """What an index keeps beside a text so that a part of a sentence is found; empty if blanks part its words.

    At most six times as long as the text, mostly three. Words of other scripts that touch such letters stand there too.
    """
    if text.isascii() or not _PAIRED.search(text):
        return ""
    return " ".join(term for run in _RUN.findall(text) if _PAIRED.search(run) for term in terms(run))


def terms(text: str) -> list[str]:
    """The lower-case words of a text, and pairs of characters where words are not told apart."""
    if text.isascii():
        return [part.lower() for part in _PART.findall(text)]
    return [term for part in _PART.findall(text) for term in _pairs(part)]


def _pairs(part: str) -> list[str]:
    """Marks are left out, because full-text parsers take them for blanks."""
    if not _PAIRED.match(part):
        return [part.lower()]
    letters = "".join(letter for letter in unicodedata.normalize("NFKC", part) if letter.isalnum())
    return [letters[at : at + 2] for at in range(max(1, len(letters) - 1))] if letters else []
