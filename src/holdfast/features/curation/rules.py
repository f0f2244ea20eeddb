"""Pure rules of the curator: how duplicate texts are merged, and how use changes a priority."""

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
"""Minimum word overlap for comparing two sentences."""
OFTEN = 10
"""Additional uses needed for each increase of the priority."""
LATELY = 7 * DAY
IDLE = 30 * DAY
MOST, LEAST = 10, 1


def united(texts: Sequence[str]) -> str:
    """Merge texts: the longest one, followed by sentences of the others that it lacks."""
    first, *others = sorted(texts, key=lambda text: (-len(text), text))
    lines = [first[start:end] for start, end in sentences(first)]
    normalized = {_spelled(one) for one in lines}
    added: list[str] = []
    for text in others:
        for start, end in sentences(text):
            one = text[start:end]
            if _spelled(one) not in normalized and not _told(one, lines):
                normalized.add(_spelled(one))
                lines.append(one)
                added.append(one)
    return "\n".join([first, *added])


def _spelled(sentence: str) -> str:
    """Normalize a sentence: ignore case, whitespace and punctuation."""
    return " ".join(runs(sentence)) or sentence


def _told(sentence: str, said: Sequence[str]) -> bool:
    """Whether one of the sentences says nearly the same. Only those with enough shared words are compared."""
    words = frozenset(runs(sentence))
    near = (one for one in said if jaccard(words, frozenset(runs(one))) >= SHARED)
    return any(compare(one, sentence).relation in ("same", "near") for one in near)


def lasting(sources: Sequence[Memory]) -> tuple[Tier, int | None]:
    """Find the tier and expiry of a merged memory: the longest of its sources."""
    ends = [source.expires_at for source in sources if source.expires_at is not None]
    if len(ends) < len(sources):
        return "long", None
    return max((source.tier for source in sources), key=TIERS.index), max(ends)


class Moved(NamedTuple):
    """A new priority and its grounds. The same grounds change a priority only once."""

    priority: int
    grounds: str
    reason: str


def moved(memory: Memory, uses: int, used_at: int, now: int, before: str | None) -> Moved | None:
    """Suggest a new priority from use; `before` are the grounds of the last change."""
    if uses:
        again = _number(before, "used ") + OFTEN
        if uses >= again and now - used_at <= LATELY and memory.priority < MOST:
            return Moved(memory.priority + 1, f"used {uses}", f"used {uses} times, including recently")
        return None
    idle = (now - memory.created_at) // IDLE
    if idle > _number(before, "idle ") and memory.priority > LEAST:
        return Moved(memory.priority - 1, f"idle {idle}", f"never used in {idle * IDLE // DAY} days")
    return None


def _number(grounds: str | None, sort: str) -> int:
    return int(grounds.removeprefix(sort)) if grounds is not None and grounds.startswith(sort) else 0
