"""FTS5's own tokens, without a store: every engine indexes and asks for the same words."""

import threading

import apsw

TOKENIZER = ("porter", ["unicode61"])
_local = threading.local()


def tokens(text: str, *, query: bool = False) -> list[str]:
    """The tokens of a text, in order."""
    why = apsw.FTS5_TOKENIZE_QUERY if query else apsw.FTS5_TOKENIZE_DOCUMENT
    found = _tokenizer()(text.encode(), why, None, include_offsets=False, include_colocated=False)
    return list(map(str, found))


def stems(text: str) -> list[str]:
    """The distinct tokens of a text that is asked for."""
    return list(dict.fromkeys(tokens(text, query=True)))


def _tokenizer() -> apsw.FTS5Tokenizer:
    if not hasattr(_local, "tokenizer"):
        _local.tokenizer = apsw.Connection(":memory:").fts5_tokenizer(*TOKENIZER)
    return _local.tokenizer  # type: ignore[no-any-return]
