"""Cache of model answers. Local to this store, never journalled."""

from typing import NamedTuple

from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY

CACHE_DAYS = 7
"""Lifetime of a cached answer; any purge clears the cache."""
MAX_ANSWERS = 10_000
EVICT_COUNT = MAX_ANSWERS // 10
"""Number of answers evicted at once when the cache is full."""


class CachedAnswer(NamedTuple):
    """A cached answer."""

    model: str
    answer: str


def get_answer(session: Session, key: str, now: int) -> CachedAnswer | None:
    row = session.row("llm_answer_get", key=key, since=now - CACHE_DAYS * DAY)
    return None if row is None else CachedAnswer(*row)


def cache_answer(session: Session, key: str, model: str, answer: str, now: int) -> None:
    """Cache an answer; evict the oldest if the cache is full."""
    session.do("llm_answer_put", key=key, model=model, answer=answer, now=now)
    ((count,),) = session.rows("llm_answer_count")
    if count > MAX_ANSWERS:
        session.do("llm_answer_evict", excess=count - MAX_ANSWERS + EVICT_COUNT)


def clear_answers(session: Session) -> None:
    """Clear the cache: any answer may quote purged text."""
    session.do("llm_answer_clear")


def prune_answers(session: Session, now: int) -> None:
    """Delete the answers past their lifetime."""
    session.do("llm_answer_prune", before=now - CACHE_DAYS * DAY)
