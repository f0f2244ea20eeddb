"""Cache of model answers and log of model usage. Local to this store, never journalled."""

from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.storage.local_table import LocalTable
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY

CACHE_DAYS = 7
"""Lifetime of a cached answer; any purge clears the cache."""
MAX_ANSWERS = 10_000
EVICT_COUNT = MAX_ANSWERS // 10
"""Number of answers evicted at once when the cache is full."""
USAGE_DAYS = 400

Outcome = Literal["answered", "unfit", "failed"]


class CachedAnswer(Struct, frozen=True, kw_only=True):
    """A cached answer, by a digest of everything that was asked."""

    key: str
    model: str
    answer: str
    created_at: int


class ModelCall(Struct, frozen=True, kw_only=True):
    """A call of a model: its reservation at first, then its usage."""

    id: str
    day: int
    agent: str
    task: str
    model: str
    spent: int
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: int = 0
    outcome: Outcome | Literal["asked"] = "asked"


ANSWERS = LocalTable(CachedAnswer, "llm_answer", ("key",), plural="answers")
CALLS = LocalTable(ModelCall, "llm_call", plural="calls")


class CallUsage(NamedTuple):
    """The usage of a finished call."""

    model: str
    spent: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: int
    outcome: Outcome


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
    spent: int
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
    ((tokens,),) = session.rows("llm_tokens_spent", day=now // DAY)
    return int(tokens)


def reserve_tokens(session: Session, *, id: str, agent: str, task: str, model: str, tokens: int, now: int) -> None:
    """Reserve tokens for a call before it is made. They stay counted if the call is never finished."""
    CALLS.add(session, ModelCall(id=id, day=now // DAY, agent=agent, task=task, model=model, spent=tokens))


def finish_call(session: Session, id: str, took: CallUsage) -> None:
    call = CALLS.get(session, id)
    if call is not None:
        CALLS.put(session, replace(call, **took._asdict()))


def list_usage(session: Session, now: int, days: int) -> list[UsageRow]:
    """Read the usage of the last days, newest first."""
    return [UsageRow(*row) for row in session.rows("llm_usage", since=now // DAY - days + 1)]


def clear_answers(session: Session) -> None:
    """Clear the cache: any answer may quote purged text."""
    session.do("llm_answer_clear")


def prune(session: Session, now: int) -> None:
    """Delete cached answers and usage past their retention."""
    session.do("llm_answer_prune", before=now - CACHE_DAYS * DAY)
    session.do("llm_call_prune", before=now // DAY - USAGE_DAYS)
