"""Index terms of a memory, computed once when it is stored: full-text tokens, stems by passage, and MinHash bands.

Tokens come from FTS5's tokenizer without a store, so that every engine indexes and queries the same words. Stems have
one line per passage, separated by two blanks, so that each has its own on both sides and can be counted as a substring;
the first line is for title and tags. LSH bands of the stems find near-duplicate memories of a namespace.
"""

import threading
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from typing import NamedTuple, cast

import apsw
from msgspec import Struct

from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.passages import Passage, is_question, parse_head, split_passages
from holdfast.kernel.text.similarity import hash_text, lsh_bands
from holdfast.kernel.text.words import STOP, index_bigrams, to_emoji

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
    return {stem: [to_emoji(stem)] for stem in parts} | {stem: list(words.values()) for stem, words in found.items()}


def _tokenizer() -> apsw.FTS5Tokenizer:
    if not hasattr(_local, "tokenizer"):
        _local.tokenizer = apsw.Connection(":memory:").fts5_tokenizer(*TOKENIZER)
    return _local.tokenizer  # type: ignore[no-any-return]


class PassageTerms(Struct, frozen=True, gc=False):
    """Index terms of a passage: its position, speaker and stems."""

    begins: int
    ends: int
    speaker: str | None
    stems: str


class IndexTerms(Struct, frozen=True, gc=False):
    text: str
    """The stored text."""
    is_question: bool
    length: int
    """Number of stems in all passages."""
    labels: str
    """Stems of the title (if not part of the content), of the tags and of a name at the head."""
    passages: list[PassageTerms]


EMPTY_TERMS = IndexTerms(text="", is_question=False, length=0, labels="", passages=[])


def pad(stem: str) -> str:
    return f" {stem} "


@lru_cache(maxsize=2)
def encode_terms(title: str, content: str, tags: str) -> str:
    """Compute the index terms of a memory. Recent ones are cached: deduplication needs them before the write."""
    length, lines, cut = 0, [], split_passages(content)
    for begins, ends, speaker in cut:
        stems = index_tokens(content[begins:ends])
        length += len(stems)
        lines.append(f"{begins}\t{ends}\t{speaker or ''}\t{_join_stems(stems)}")
    return "\n".join(
        [f"{int(is_question(content))}\t{length}\t{_join_stems(_label_stems(title, content, tags, cut))}", *lines]
    )


def terms_of_line(content: str) -> IndexTerms:
    """Compute the terms of a text that is not part of the memory, so that it has no passage positions."""
    stems = index_tokens(content)
    said = PassageTerms(0, 0, None, _join_stems(stems))
    return IndexTerms(text=said.stems, is_question=False, length=len(stems), labels="", passages=[said])


def _label_stems(title: str, content: str, tags: str, cut: Sequence[Passage]) -> list[str]:
    """Return the stems of title (if not in the content), tags, and a name at the head of the content.

    In a transcript, every passage has its own speaker, so the head is not a label.
    """
    name = parse_head(content).speaker if not any(passage.speaker for passage in cut[:1]) else None
    said = ["" if title in content else title, "" if tags == "[]" else tags, name or ""]
    return index_tokens(" ".join(said)) if any(said) else []


def decode_terms(text: str) -> IndexTerms:
    """Decode stored index terms."""
    if not text:
        return EMPTY_TERMS
    first, *others = text.split("\n")
    asking, length, labels = first.split("\t")
    lines = []
    for other in others:
        begins, ends, speaker, stems = other.split("\t")
        lines.append(PassageTerms(int(begins), int(ends), speaker or None, stems))
    return IndexTerms(text, asking == "1", int(length), labels, lines)


def count_terms(text: str) -> int:
    """Return the number of stems, without decoding everything."""
    return int(text.split("\t", 2)[1]) if text else 0


def has_question(text: str) -> bool:
    """Whether the memory is a question, without decoding everything."""
    return text.startswith("1")


def _join_stems(stems: list[str]) -> str:
    return pad("  ".join(stems)) if stems else ""


MIN_STEMS = 4
"""Minimum number of different stems for a meaningful hash."""
MAX_PER_BAND = 8
"""Newest matches to return per band."""
MAX_EXACT_SCANNED = 512
"""Newest matches to search for an identical text."""


def memory_hashes(memory: Memory, parsed: str) -> tuple[int, ...]:
    """Return the hashes of a memory: of the exact text, its own band, and further bands to query. Empty if not live.

    Conversation turns have none: repeating a sentence is a new event, not a duplicate.
    """
    if memory.state != "live" or memory.kind == "conversation":
        return ()
    return text_hashes(memory.namespace, parsed)


@lru_cache(maxsize=2)
def text_hashes(namespace: str, parsed: str) -> tuple[int, ...]:
    """Return the hashes of a text, given its index terms. Recent ones are cached for a following write."""
    said = [line.rpartition("\t")[2] for line in parsed.split("\n")[1:]]
    stems = set(" ".join(said).split()) - _stop_stems()
    if len(stems) < MIN_STEMS:
        return ()
    place = _namespace_hash(namespace)
    return (place ^ hash_text("\n".join(said)), *(place ^ band for band in lsh_bands(stems)))


@cache
def _stop_stems() -> frozenset[str]:
    """Return the stems of stop words."""
    return frozenset(tokens(" ".join(STOP)))


@lru_cache(maxsize=1024)
def _namespace_hash(namespace: str) -> int:
    return int.from_bytes(blake2b(namespace.encode(), digest_size=8).digest(), "big") >> 1


def update_hashes(session: Session, memory: str, before: Sequence[int], after: Sequence[int]) -> None:
    """Replace the stored hashes of a memory."""
    if before == after:
        return
    if before:
        session.do("lsh_band_drop", bands=list(before[:2]), memory=memory)
    if after:
        session.do("lsh_band_add", band=after[1], memory=memory, exact=after[0])


class HashMatches(NamedTuple):
    """Memories that share hashes with a text, without access checks."""

    identical: list[str]
    """Newest memories with the identical text, oldest first."""
    near: list[str]
    """Others, most shared bands first."""

    @property
    def all(self) -> list[str]:
        return [*self.identical, *self.near]


def find_matches(session: Session, sought: Sequence[int]) -> HashMatches:
    """Find memories that share a hash; identical texts are found however many others match."""
    if not sought:
        return HashMatches([], [])
    asked = {f"band_{place}": band for place, band in enumerate(sought[1:])}
    rows = session.rows("lsh_band_matches", exact=sought[0], most=MAX_PER_BAND, depth=MAX_EXACT_SCANNED, **asked)
    same = sorted({row[0] for row in rows if row[1]})
    shared = Counter(row[0] for row in rows if row[0] not in same)
    return HashMatches(same, sorted(shared, key=lambda memory: (shared[memory], memory), reverse=True))
