"""Cache of model answers. Local to this store, never journalled."""

from msgspec import Struct

from holdfast.kernel.storage.local_table import LocalTable
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY

CACHE_DAYS = 7
"""Lifetime of a cached answer; any purge clears the cache."""
MAX_ANSWERS = 10_000
EVICT_COUNT = MAX_ANSWERS // 10
"""Number of answers evicted at once when the cache is full."""


class CachedAnswer(Struct, frozen=True, kw_only=True):
    """A cached answer, by a digest of everything that was asked."""

    key: str
    model: str
    answer: str
    created_at: int


ANSWERS = LocalTable(CachedAnswer, "llm_answer", ("key",), plural="answers")


def get_answer(session: Session, key: str, now: int) -> CachedAnswer | None:
    found = ANSWERS.get(session, key)
    return found if found is not None and found.created_at >= now - CACHE_DAYS * DAY else None


def cache_answer(session: Session, key: str, model: str, answer: str, now: int) -> None:
    """Cache an answer; evict the oldest if the cache is full."""
    ANSWERS.put(session, CachedAnswer(key=key, model=model, answer=answer, created_at=now))
    if (count := ANSWERS.count(session)) > MAX_ANSWERS:
        session.do("llm_answer_evict", excess=count - MAX_ANSWERS + EVICT_COUNT)


def clear_answers(session: Session) -> None:
    """Clear the cache: any answer may quote purged text."""
    session.do("llm_answer_clear")


def prune_answers(session: Session, now: int) -> None:
    """Delete the answers past their lifetime."""
    session.do("llm_answer_prune", before=now - CACHE_DAYS * DAY)
