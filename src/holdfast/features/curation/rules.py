"""Pure rules of the curator: how duplicate texts are merged, and how use changes a priority."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.kernel.records.memory import TIERS, Memory, Tier
from holdfast.kernel.text.sentences import split_sentences
from holdfast.kernel.text.similarity import compare, jaccard
from holdfast.kernel.text.words import split_words
from holdfast.kernel.timestamps import DAY

MAX_MEMBERS = 8
MIN_SHARED_WORDS = 0.6
"""Minimum word overlap for comparing two sentences."""
USES_PER_STEP = 10
"""Additional uses needed for each increase of the priority."""
RECENTLY = 7 * DAY
IDLE_PERIOD = 30 * DAY
MAX_PRIORITY, MIN_PRIORITY = 10, 1


def merge_texts(texts: Sequence[str]) -> str:
    """Merge texts: the longest one, followed by sentences of the others that it lacks."""
    first, *others = sorted(texts, key=lambda text: (-len(text), text))
    lines = [first[start:end] for start, end in split_sentences(first)]
    normalized = {_normalize_sentence(one) for one in lines}
    added: list[str] = []
    for text in others:
        for start, end in split_sentences(text):
            one = text[start:end]
            if _normalize_sentence(one) not in normalized and not _is_covered(one, lines):
                normalized.add(_normalize_sentence(one))
                lines.append(one)
                added.append(one)
    return "\n".join([first, *added])


def _normalize_sentence(sentence: str) -> str:
    """Normalize a sentence: ignore case, whitespace and punctuation."""
    return " ".join(split_words(sentence)) or sentence


def _is_covered(sentence: str, said: Sequence[str]) -> bool:
    """Whether one of the sentences says nearly the same. Only those with enough shared words are compared."""
    words = frozenset(split_words(sentence))
    near = (one for one in said if jaccard(words, frozenset(split_words(one))) >= MIN_SHARED_WORDS)
    return any(compare(one, sentence).relation in ("same", "near") for one in near)


def find_longest_lifetime(sources: Sequence[Memory]) -> tuple[Tier, int | None]:
    """Find the tier and expiry of a merged memory: the longest of its sources."""
    ends = [source.expires_at for source in sources if source.expires_at is not None]
    if len(ends) < len(sources):
        return "long", None
    return max((source.tier for source in sources), key=TIERS.index), max(ends)


class PriorityChange(NamedTuple):
    """A new priority and its grounds. The same grounds change a priority only once."""

    priority: int
    basis: str
    reason: str


def suggest_priority(memory: Memory, uses: int, used_at: int, now: int, before: str | None) -> PriorityChange | None:
    """Suggest a new priority from use; `before` are the grounds of the last change."""
    if uses:
        again = _parse_basis(before, "used ") + USES_PER_STEP
        if uses >= again and now - used_at <= RECENTLY and memory.priority < MAX_PRIORITY:
            return PriorityChange(memory.priority + 1, f"used {uses}", f"used {uses} times, including recently")
        return None
    idle = (now - memory.created_at) // IDLE_PERIOD
    if idle > _parse_basis(before, "idle ") and memory.priority > MIN_PRIORITY:
        return PriorityChange(memory.priority - 1, f"idle {idle}", f"never used in {idle * IDLE_PERIOD // DAY} days")
    return None


def _parse_basis(basis: str | None, prefix: str) -> int:
    return int(basis.removeprefix(prefix)) if basis is not None and basis.startswith(prefix) else 0
