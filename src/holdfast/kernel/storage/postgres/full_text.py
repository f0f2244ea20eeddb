"""Words as PostgreSQL keeps and finds them: a tsvector of FTS5's tokens, and a score as near to BM25 as it allows."""

from collections.abc import Sequence
from hashlib import sha256
from math import log

from holdfast.kernel.storage.fts_tokens import tokens
from holdfast.kernel.storage.port import Texts

LONGEST_WORD = 2046
"""Bytes of a lexeme. A longer word is known by its digest."""
LAST_PLACE = 16_383
"""A word that stands later is found too, but not as a part of several in a row."""
GAP = 2
"""Between two fields, so that no phrase goes from one into the other."""


def lexeme(token: str) -> str:
    """A token, quoted."""
    if len(token.encode()) > LONGEST_WORD:
        token = sha256(token.encode()).hexdigest()
    return "'" + token.replace("\\", "\\\\").replace("'", "''") + "'"


def vector_of(texts: Texts) -> str:
    """What a memory is found by, as a tsvector is written: each word with its places, a title's weighing most."""
    places: dict[str, list[str]] = {}
    place = 0
    for text, weight in ((texts.title, "A"), (f"{texts.tags} {texts.spelled}", "B"), (texts.content, "")):
        for token in tokens(text):
            place = min(place + 1, LAST_PLACE)
            places.setdefault(token, []).append(f"{place}{weight}")
        place += GAP
    return " ".join(f"{lexeme(token)}:{','.join(at)}" for token, at in places.items())


def query_of(word: str) -> str:
    """What finds a word: its token, or its tokens in a row. A word without any is found nowhere."""
    return " <-> ".join(map(lexeme, tokens(word, query=True)))


def queries_of(words: Sequence[str], *, every: bool) -> str:
    """What finds every one, or any, of some words; one without a token does not count."""
    found = [f"({query})" for query in map(query_of, words) if query]
    return (" & " if every else " | ").join(found)


def rarity(held: int, memories: int) -> float:
    """How much a word says that so many of the memories hold: BM25's measure, as FTS5 takes it."""
    return max(log((memories - held + 0.5) / (held + 0.5)), 1e-6)
