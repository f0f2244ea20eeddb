"""FTS5's own tokens, without a store: every engine indexes and asks for the same words."""

import threading
from collections.abc import Collection
from typing import cast

import apsw

from holdfast.kernel.text import emoji
from holdfast.kernel.text.bigrams import spelled

TOKENIZER = ("porter", ["unicode61"])
_local = threading.local()


def tokens(text: str, *, query: bool = False) -> list[str]:
    """The tokens of a text, in order."""
    why = apsw.FTS5_TOKENIZE_QUERY if query else apsw.FTS5_TOKENIZE_DOCUMENT
    found = _tokenizer()(text.encode(), why, None, include_offsets=False, include_colocated=False)
    return list(map(str, found))


def found_by(text: str) -> list[str]:
    """All that a text is found by: its tokens, and the pairs of characters of what is written in it without blanks."""
    return tokens(text) if text.isascii() else tokens(text) + tokens(spelled(text))


def stems(text: str) -> list[str]:
    """The distinct tokens of a text that is asked for."""
    return list(dict.fromkeys(tokens(text, query=True)))


def standing(text: str, stems: Collection[str]) -> dict[str, list[str]]:
    """The words of a text by which it has each of the stems, as they stand there; however spelled, each once."""
    said = text.encode()
    found: dict[str, dict[str, str]] = {}
    for token in _tokenizer()(said, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False):
        begins, ends, stem = cast(tuple[int, int, str], token)
        if stem in stems:
            word = said[begins:ends].decode()
            found.setdefault(stem, {}).setdefault(word.casefold(), word)
    parts = () if text.isascii() else set(tokens(spelled(text))).intersection(stems)
    return {stem: [emoji.shown(stem)] for stem in parts} | {stem: list(words.values()) for stem, words in found.items()}


def _tokenizer() -> apsw.FTS5Tokenizer:
    if not hasattr(_local, "tokenizer"):
        _local.tokenizer = apsw.Connection(":memory:").fts5_tokenizer(*TOKENIZER)
    return _local.tokenizer  # type: ignore[no-any-return]
