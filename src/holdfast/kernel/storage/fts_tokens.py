"""FTS5's tokenizer without a store, so that every engine indexes and queries the same words."""

import threading
from collections.abc import Collection
from typing import cast

import apsw

from holdfast.kernel.text import emoji
from holdfast.kernel.text.bigrams import index_bigrams

TOKENIZER = ("porter", ["unicode61"])
_local = threading.local()


def tokens(text: str, *, query: bool = False) -> list[str]:
    """Return the tokens of a text, in order."""
    why = apsw.FTS5_TOKENIZE_QUERY if query else apsw.FTS5_TOKENIZE_DOCUMENT
    found = _tokenizer()(text.encode(), why, None, include_offsets=False, include_colocated=False)
    return list(map(str, found))


def index_tokens(text: str) -> list[str]:
    """Return all index tokens of a text: its tokens, and bigrams of scripts without blanks."""
    return tokens(text) if text.isascii() else tokens(text) + tokens(index_bigrams(text))


def stems(text: str) -> list[str]:
    """Return the distinct tokens of a query."""
    return list(dict.fromkeys(tokens(text, query=True)))


def matching_words(text: str, stems: Collection[str]) -> dict[str, list[str]]:
    """Return the words of a text that match each stem, as written, without case duplicates."""
    said = text.encode()
    found: dict[str, dict[str, str]] = {}
    for token in _tokenizer()(said, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False):
        begins, ends, stem = cast(tuple[int, int, str], token)
        if stem in stems:
            word = said[begins:ends].decode()
            found.setdefault(stem, {}).setdefault(word.casefold(), word)
    parts = () if text.isascii() else set(tokens(index_bigrams(text))).intersection(stems)
    return {stem: [emoji.to_emoji(stem)] for stem in parts} | {
        stem: list(words.values()) for stem, words in found.items()
    }


def _tokenizer() -> apsw.FTS5Tokenizer:
    if not hasattr(_local, "tokenizer"):
        _local.tokenizer = apsw.Connection(":memory:").fts5_tokenizer(*TOKENIZER)
    return _local.tokenizer  # type: ignore[no-any-return]
