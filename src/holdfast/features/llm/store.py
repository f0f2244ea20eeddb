"""Cache of model answers and log of model usage. Local to this store, never journalled."""

from typing import Literal, NamedTuple

from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY

KEEP_DAYS = 7
"""Lifetime of a cached answer; any purge clears the cache."""
MOST_ANSWERS = 10_000
ROOM = MOST_ANSWERS // 10
"""Number of answers evicted at once when the cache is full."""
LEDGER_DAYS = 400

Outcome = Literal["answered", "unfit", "failed"]


class Answered(NamedTuple):
    """A cached answer."""

    model: str
    answer: str


class Took(NamedTuple):
    """The usage of a finished call."""

    model: str
    spent: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: int
    outcome: Outcome


class Usage(NamedTuple):
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


def answer(session: Session, key: str, now: int) -> Answered | None:
    row = session.row("llm_answer_get", key=key, since=now - KEEP_DAYS * DAY)
    return None if row is None else Answered(*row)


def keep(session: Session, key: str, model: str, answer: str, now: int) -> None:
    """Cache an answer; evict the oldest if the cache is full."""
    session.do("llm_answer_put", key=key, model=model, answer=answer, now=now)
    ((count,),) = session.rows("llm_answer_count")
    if count > MOST_ANSWERS:
        session.do("llm_answer_excess", excess=count - MOST_ANSWERS + ROOM)


def spent(session: Session, now: int) -> int:
    """Read the tokens spent today, reserved ones included."""
    ((tokens,),) = session.rows("llm_spent", day=now // DAY)
    return int(tokens)


def reserve(session: Session, *, id: str, agent: str, task: str, model: str, tokens: int, now: int) -> None:
    """Reserve tokens for a call before it is made. They stay counted if the call is never finished."""
    session.do("llm_call_add", id=id, day=now // DAY, agent=agent, task=task, model=model, spent=tokens)


def settle(session: Session, id: str, took: Took) -> None:
    session.do("llm_call_settle", id=id, **took._asdict())


def usage(session: Session, now: int, days: int) -> list[Usage]:
    """Read the usage of the last days, newest first."""
    return [Usage(*row) for row in session.rows("llm_usage", since=now // DAY - days + 1)]


def forget(session: Session) -> None:
    """Clear the cache: any answer may quote purged text."""
    session.do("llm_answer_forgotten")


def prune(session: Session, now: int) -> None:
    """Delete cached answers and usage past their retention."""
    session.do("llm_answer_aged", before=now - KEEP_DAYS * DAY)
    session.do("llm_call_aged", before=now // DAY - LEDGER_DAYS)
