"""Log of model usage. Local to this store, never journalled."""

from typing import Literal, NamedTuple

from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY

USAGE_DAYS = 400

Outcome = Literal["answered", "unfit", "failed"]


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


def count_spent(session: Session, now: int) -> int:
    """Read the tokens spent today, reserved ones included."""
    ((tokens,),) = session.rows("llm_tokens_spent", day=now // DAY)
    return int(tokens)


def reserve_tokens(session: Session, *, id: str, agent: str, task: str, model: str, tokens: int, now: int) -> None:
    """Reserve tokens for a call before it is made. They stay counted if the call is never finished."""
    session.do("llm_call_add", id=id, day=now // DAY, agent=agent, task=task, model=model, spent=tokens)


def finish_call(session: Session, id: str, took: CallUsage) -> None:
    session.do("llm_call_finish", id=id, **took._asdict())


def list_usage(session: Session, now: int, days: int) -> list[UsageRow]:
    """Read the usage of the last days, newest first."""
    return [UsageRow(*row) for row in session.rows("llm_usage", since=now // DAY - days + 1)]


def prune(session: Session, now: int) -> None:
    """Delete usage past its retention."""
    session.do("llm_call_prune", before=now // DAY - USAGE_DAYS)
