"""Cache of model answers, and the calls of the model in the ledger of usage. Local to this store, never journalled."""

from typing import NamedTuple

from msgspec import Struct

from holdfast.features.usage.price import Use
from holdfast.features.usage.store import USAGE
from holdfast.kernel.storage.local_table import LocalTable
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY

CACHE_DAYS = 7
"""Lifetime of a cached answer; any purge clears the cache."""
MAX_ANSWERS = 10_000
EVICT_COUNT = MAX_ANSWERS // 10
"""Number of answers evicted at once when the cache is full."""
USAGE_DAYS = 400


class CachedAnswer(Struct, frozen=True, kw_only=True):
    """A cached answer, by a digest of everything that was asked."""

    key: str
    model: str
    answer: str
    created_at: int


ANSWERS = LocalTable(CachedAnswer, "llm_answer", ("key",), plural="answers")


class UsageRow(NamedTuple):
    """Usage of a model by task and day; `day` counts from 1970-01-01."""

    day: int
    task: str
    model: str
    calls: int
    answered: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    spent_tokens: int
    cost: int


def get_answer(session: Session, key: str, now: int) -> CachedAnswer | None:
    found = ANSWERS.get(session, key)
    return found if found is not None and found.created_at >= now - CACHE_DAYS * DAY else None


def cache_answer(session: Session, key: str, model: str, answer: str, now: int) -> None:
    """Cache an answer; evict the oldest if the cache is full."""
    ANSWERS.put(session, CachedAnswer(key=key, model=model, answer=answer, created_at=now))
    if (count := ANSWERS.count(session)) > MAX_ANSWERS:
        session.do("llm_answer_evict", excess=count - MAX_ANSWERS + EVICT_COUNT)


def count_spent(session: Session, now: int) -> int:
    """Read the tokens spent today, reserved ones included."""
    ((tokens,),) = session.rows("usage_tokens_spent", day=now // DAY)
    return int(tokens)


def reserve_tokens(session: Session, *, id: str, agent: str, task: str, model: str, tokens: int, now: int) -> Use:
    """Reserve tokens for a call before it is made. They stay counted if the call is never finished."""
    call = {"agent": agent, "principal": agent, "task": task, "model": model, "outcome": "asked", "spent": tokens}
    return USAGE.add(session, Use(id=id, at=now, day=now // DAY, cost=0, **call))  # type: ignore[arg-type]


def finish_call(session: Session, call: Use) -> None:
    columns = ("id", "model", "input_tokens", "output_tokens", "cache_read_tokens", "cost", "outcome", "spent")
    session.do("usage_finish", **{name: getattr(call, name) for name in columns})


def list_usage(session: Session, now: int, days: int) -> list[UsageRow]:
    """Read the usage of the last days, newest first."""
    return [UsageRow(*row) for row in session.rows("usage_of_tasks", since=now // DAY - days + 1)]


def clear_answers(session: Session) -> None:
    """Clear the cache: any answer may quote purged text."""
    session.do("llm_answer_clear")


def prune(session: Session, now: int) -> None:
    """Delete cached answers and usage past their retention."""
    session.do("llm_answer_prune", before=now - CACHE_DAYS * DAY)
    session.do("usage_prune_tasks", before=now // DAY - USAGE_DAYS)
