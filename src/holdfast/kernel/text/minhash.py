"""Numbers by which nearly equal memories of one namespace are found, kept with every memory that says something."""

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
"""A text of fewer different stems says too little to be told from others by them."""
NEWEST = 8
"""So many of those that share a number are looked at."""
DEPTH = 512
"""So many are looked through for one that says the very same."""


def numbers(memory: Memory, parsed: str) -> tuple[int, ...]:
    """The numbers of a memory: one that equal texts alone share, its own, and those it asks for. None, if not live.

    What was said in a conversation has none: that somebody says the same again is something else that happened.
    """
    if memory.state != "live" or memory.kind == "conversation":
        return ()
    return of_text(memory.namespace, parsed)


@lru_cache(maxsize=2)
def of_text(namespace: str, parsed: str) -> tuple[int, ...]:
    """The numbers of a text that was taken apart. The last ones are kept: who looks by them may write them next."""
    said = [line.rpartition("\t")[2] for line in parsed.split("\n")[1:]]
    stems = set(" ".join(said).split()) - _stop()
    if len(stems) < FEWEST:
        return ()
    place = _place(namespace)
    return (place ^ hashed("\n".join(said)), *(place ^ band for band in bands(stems)))


@cache
def _stop() -> frozenset[str]:
    """The stems of the words that every text has."""
    return frozenset(tokens(" ".join(STOP)))


@lru_cache(maxsize=1024)
def _place(namespace: str) -> int:
    return int.from_bytes(blake2b(namespace.encode(), digest_size=8).digest(), "big") >> 1


def keep(session: Session, memory: str, before: Sequence[int], after: Sequence[int]) -> None:
    """Let a memory be found by its own number and by the one of equal texts, and no longer by those it had."""
    if before == after:
        return
    if before:
        session.do("gist_drop", bands=list(before[:2]), memory=memory)
    if after:
        session.do("gist_add", band=after[1], memory=memory, exact=after[0])


class Sharing(NamedTuple):
    """Memories that share numbers with a text; whether they may be seen is not asked."""

    same: list[str]
    """The newest few that say the very same, the oldest of them first."""
    near: list[str]
    """Others, those that share the most first."""

    @property
    def all(self) -> list[str]:
        return [*self.same, *self.near]


def sharing(session: Session, sought: Sequence[int]) -> Sharing:
    """The memories that share a number: an equal text is among them however many others are."""
    if not sought:
        return Sharing([], [])
    asked = {f"band_{place}": band for place, band in enumerate(sought[1:])}
    rows = session.rows("gist_sharing", exact=sought[0], most=NEWEST, depth=DEPTH, **asked)
    same = sorted({row[0] for row in rows if row[1]})
    shared = Counter(row[0] for row in rows if row[0] not in same)
    return Sharing(same, sorted(shared, key=lambda memory: (shared[memory], memory), reverse=True))
