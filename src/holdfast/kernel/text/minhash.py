"""MinHash: LSH bands that find near-duplicate memories of a namespace."""

from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from typing import NamedTuple

from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.fts_tokens import tokens
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.similarity import bands, hashed
from holdfast.kernel.text.words import STOP

FEWEST = 4
"""Minimum number of different stems for a meaningful hash."""
NEWEST = 8
"""Newest matches to return per band."""
DEPTH = 512
"""Newest matches to search for an identical text."""


def numbers(memory: Memory, parsed: str) -> tuple[int, ...]:
    """Return the hashes of a memory: of the exact text, its own band, and further bands to query. Empty if not live.

    Conversation turns have none: repeating a sentence is a new event, not a duplicate.
    """
    if memory.state != "live" or memory.kind == "conversation":
        return ()
    return of_text(memory.namespace, parsed)


@lru_cache(maxsize=2)
def of_text(namespace: str, parsed: str) -> tuple[int, ...]:
    """Return the hashes of a text, given its index terms. Recent ones are cached for a following write."""
    said = [line.rpartition("\t")[2] for line in parsed.split("\n")[1:]]
    stems = set(" ".join(said).split()) - _stop()
    if len(stems) < FEWEST:
        return ()
    place = _place(namespace)
    return (place ^ hashed("\n".join(said)), *(place ^ band for band in bands(stems)))


@cache
def _stop() -> frozenset[str]:
    """Return the stems of stop words."""
    return frozenset(tokens(" ".join(STOP)))


@lru_cache(maxsize=1024)
def _place(namespace: str) -> int:
    return int.from_bytes(blake2b(namespace.encode(), digest_size=8).digest(), "big") >> 1


def keep(session: Session, memory: str, before: Sequence[int], after: Sequence[int]) -> None:
    """Replace the stored hashes of a memory."""
    if before == after:
        return
    if before:
        session.do("gist_drop", bands=list(before[:2]), memory=memory)
    if after:
        session.do("gist_add", band=after[1], memory=memory, exact=after[0])


class Sharing(NamedTuple):
    """Memories that share hashes with a text, without access checks."""

    same: list[str]
    """Newest memories with the identical text, oldest first."""
    near: list[str]
    """Others, most shared bands first."""

    @property
    def all(self) -> list[str]:
        return [*self.same, *self.near]


def sharing(session: Session, sought: Sequence[int]) -> Sharing:
    """Find memories that share a hash; identical texts are found however many others match."""
    if not sought:
        return Sharing([], [])
    asked = {f"band_{place}": band for place, band in enumerate(sought[1:])}
    rows = session.rows("gist_sharing", exact=sought[0], most=NEWEST, depth=DEPTH, **asked)
    same = sorted({row[0] for row in rows if row[1]})
    shared = Counter(row[0] for row in rows if row[0] not in same)
    return Sharing(same, sorted(shared, key=lambda memory: (shared[memory], memory), reverse=True))
