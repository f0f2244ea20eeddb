"""What a curator does, as rules: how texts that say the same become one, and how use moves an importance."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.kernel.records.memory import TIERS, Memory, Tier
from holdfast.kernel.text.cluster import jaccard
from holdfast.kernel.text.sentences import sentences
from holdfast.kernel.text.similarity import compare
from holdfast.kernel.text.words import runs
from holdfast.kernel.timestamps import DAY

MOST_MEMBERS = 8
SHARED = 0.6
"""The share of words from which on two sentences are compared."""
OFTEN = 10
"""Uses that make a memory more important, and so many more each time again."""
LATELY = 7 * DAY
IDLE = 30 * DAY
MOST, LEAST = 10, 1


def united(texts: Sequence[str]) -> str:
    """One text that says all that several say: the longest, and behind it the sentences of the others that it lacks."""
    first, *others = sorted(texts, key=lambda text: (-len(text), text))
    said = [first[start:end] for start, end in sentences(first)]
    known = {_spelled(one) for one in said}
    added: list[str] = []
    for text in others:
        for start, end in sentences(text):
            one = text[start:end]
            if _spelled(one) not in known and not _told(one, said):
                known.add(_spelled(one))
                said.append(one)
                added.append(one)
    return "\n".join([first, *added])


def _spelled(sentence: str) -> str:
    """A sentence but for its case, blanks and punctuation."""
    return " ".join(runs(sentence)) or sentence


def _told(sentence: str, said: Sequence[str]) -> bool:
    """Whether another sentence says nearly the same; only those that share most of their words are compared."""
    words = frozenset(runs(sentence))
    near = (one for one in said if jaccard(words, frozenset(runs(one))) >= SHARED)
    return any(compare(one, sentence).relation in ("same", "near") for one in near)


def lasting(sources: Sequence[Memory]) -> tuple[Tier, int | None]:
    """The tier and the end of what takes the place of several: no shorter than any of them."""
    ends = [source.expires_at for source in sources if source.expires_at is not None]
    if len(ends) < len(sources):
        return "long", None
    return max((source.tier for source in sources), key=TIERS.index), max(ends)


class Moved(NamedTuple):
    """Another importance, and what it rests on: the same grounds move it once."""

    priority: int
    grounds: str
    reason: str


def moved(memory: Memory, uses: int, used_at: int, now: int, before: str | None) -> Moved | None:
    """What use makes of a memory's importance; `before` are the grounds on which it was moved last."""
    if uses:
        again = _number(before, "used ") + OFTEN
        if uses >= again and now - used_at <= LATELY and memory.priority < MOST:
            return Moved(memory.priority + 1, f"used {uses}", f"used {uses} times, lately too")
        return None
    idle = (now - memory.created_at) // IDLE
    if idle > _number(before, "idle ") and memory.priority > LEAST:
        return Moved(memory.priority - 1, f"idle {idle}", f"never used in {idle * IDLE // DAY} days")
    return None


def _number(grounds: str | None, sort: str) -> int:
    return int(grounds.removeprefix(sort)) if grounds is not None and grounds.startswith(sort) else 0
