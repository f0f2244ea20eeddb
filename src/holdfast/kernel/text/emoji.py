"""Emoji as words: full-text parsers drop them, so each is indexed and queried by a generated name."""

import re

_EMOJI = re.compile(
    "[\U0001f1e6-\U0001f1ff]{2}"
    "|[\u231a\u231b\u2328\u23cf\u23e9-\u23fa\u2600-\u2775\u2794-\u27bf\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55"
    "\U0001f000-\U0001f0ff\U0001f170-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
)
"""A flag is two characters. Skin tones are ignored; joined emoji are found by each part."""
_NAME = re.compile(r"emoji(\d{4,6})(?:x(\d{6}))?")
_FIRST = "\u231a"


def emoji_words(text: str) -> list[str]:
    """Return the generated name of each emoji of a text, in order."""
    if text.isascii() or max(text) < _FIRST:
        return []
    return ["emoji" + "x".join(str(ord(sign)) for sign in found) for found in _EMOJI.findall(text)]


def to_emoji(word: str) -> str:
    """Convert a generated name back to its emoji; return other words unchanged."""
    found = _NAME.fullmatch(word)
    return "".join(chr(int(number)) for number in found.groups() if number) if found else word
