"""The calls of the language model in the ledger of usage."""

from typing import NamedTuple

from holdfast.features.usage.price import Use
from holdfast.features.usage.store import USAGE
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY

USAGE_DAYS = 400


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


def prune_calls(session: Session, now: int) -> None:
    """Delete the calls past their retention."""
    session.do("usage_prune_tasks", before=now // DAY - USAGE_DAYS)
