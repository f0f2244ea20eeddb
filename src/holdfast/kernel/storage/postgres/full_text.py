"""Full text in PostgreSQL: a tsvector of FTS5 tokens, and a score close to BM25."""

from collections.abc import Sequence
from hashlib import sha256
from math import log

from holdfast.kernel.storage.index_terms import tokens
from holdfast.kernel.storage.port import SearchTexts

MAX_LEXEME_BYTES = 2046
"""Size limit of a lexeme in bytes. Longer words are stored as a digest."""
MAX_POSITION = 16_383
"""Last position in a tsvector. Later words are found too, but not in phrases."""
FIELD_GAP = 2
"""Positions between two fields, so that no phrase spans both."""


def lexeme(token: str) -> str:
    """Quote a token as a lexeme."""
    if len(token.encode()) > MAX_LEXEME_BYTES:
        token = sha256(token.encode()).hexdigest()
    return "'" + token.replace("\\", "\\\\").replace("'", "''") + "'"


def to_tsvector(texts: SearchTexts) -> str:
    """Build the tsvector of a memory: each word with its positions and weights, the title's the highest."""
    places: dict[str, list[str]] = {}
    place = 0
    for text, weight in ((texts.title, "A"), (f"{texts.tags} {texts.bigrams}", "B"), (texts.content, "")):
        for token in tokens(text):
            place = min(place + 1, MAX_POSITION)
            places.setdefault(token, []).append(f"{place}{weight}")
        place += FIELD_GAP
    return " ".join(f"{lexeme(token)}:{','.join(at)}" for token, at in places.items())


def to_tsquery(word: str) -> str:
    """Build the tsquery of a word: its tokens as a phrase; empty without tokens."""
    return " <-> ".join(map(lexeme, tokens(word, query=True)))


def join_tsqueries(words: Sequence[str], *, every: bool) -> str:
    """Build the tsquery of all or any of some words; words without tokens are ignored."""
    found = [f"({query})" for query in map(to_tsquery, words) if query]
    return (" & " if every else " | ").join(found)


def bm25_idf(held: int, memories: int) -> float:
    """Return the inverse document frequency of a word by BM25, as FTS5 computes it."""
    return max(log((memories - held + 0.5) / (held + 0.5)), 1e-6)
