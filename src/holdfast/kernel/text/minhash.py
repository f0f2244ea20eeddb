"""MinHash: LSH bands that find near-duplicate memories of a namespace."""

from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from typing import NamedTuple

from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.fts_tokens import tokens
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.similarity import hash_text, lsh_bands
from holdfast.kernel.text.words import STOP

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
