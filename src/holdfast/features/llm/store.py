"""What models were asked: their answers for a while, and what each call took. Of this store alone, never journalled."""

from typing import Literal, NamedTuple

from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY

KEEP_DAYS = 7
"""So long an answer is kept; less, if something is purged."""
MOST_ANSWERS = 10_000
ROOM = MOST_ANSWERS // 10
"""So many are taken out together when there are more."""
LEDGER_DAYS = 400

Outcome = Literal["answered", "unfit", "failed"]


class Answered(NamedTuple):
    """An answer as it is kept."""

    model: str
    answer: str


class Took(NamedTuple):
    """What a call took in the end."""

    model: str
    spent: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: int
    outcome: Outcome


class Usage(NamedTuple):
    """What a task took of a model on a day, which is a number of days since 1970."""

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
    """Keep an answer, and no more of them than there is room for."""
    session.do("llm_answer_put", key=key, model=model, answer=answer, now=now)
    ((count,),) = session.rows("llm_answer_count")
    if count > MOST_ANSWERS:
        session.do("llm_answer_excess", excess=count - MOST_ANSWERS + ROOM)


def spent(session: Session, now: int) -> int:
    """The tokens of the day, with those that are reserved."""
    ((tokens,),) = session.rows("llm_spent", day=now // DAY)
    return int(tokens)


def reserve(session: Session, *, id: str, agent: str, task: str, model: str, tokens: int, now: int) -> None:
    """Count a call against its day before it is made. If nobody tells its end, what was reserved stays counted."""
    session.do("llm_call_add", id=id, day=now // DAY, agent=agent, task=task, model=model, spent=tokens)


def settle(session: Session, id: str, took: Took) -> None:
    session.do("llm_call_settle", id=id, **took._asdict())


def usage(session: Session, now: int, days: int) -> list[Usage]:
    """What the last days took, today first."""
    return [Usage(*row) for row in session.rows("llm_usage", since=now // DAY - days + 1)]


def forget(session: Session) -> None:
    """Forget every answer: each may quote what is to be gone."""
    session.do("llm_answer_forgotten")


def prune(session: Session, now: int) -> None:
    """Take out what is kept no longer."""
    session.do("llm_answer_aged", before=now - KEEP_DAYS * DAY)
    session.do("llm_call_aged", before=now // DAY - LEDGER_DAYS)
