"""Storage of outcomes: local to this store, not replicated."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.features.learning.lesson import Score
from holdfast.features.people.store import all_known_as, known_as
from holdfast.kernel.caller import Caller
from holdfast.kernel.storage.port import Part, Session


class Outcome(NamedTuple):
    id: str
    at: int
    principal: str
    agent: str
    namespace: str
    domain: str
    score: Score
    what: str
    source: str
    lesson: str | None


class Which(NamedTuple):
    """Filter for outcomes that the caller may see."""

    principals: tuple[str, ...] = ()
    namespace: str | None = None
    domain: str | None = None
    since: int | None = None
    unlearned: bool = False
    archived: bool = False
    """Include archived outcomes."""


def add(session: Session, outcome: Outcome) -> None:
    session.do("outcome_add", **outcome._asdict())


def select(session: Session, caller: Caller, which: Which, limit: int) -> list[Outcome]:
    """List outcomes, newest first. Agents see those they recorded and those about them; admins see all."""
    parts: list[Part] = ["outcome_select"]
    params: dict[str, Any] = {"limit": limit}
    if not caller.may("admin"):
        parts.append("outcome.of_agent")
        params |= {"agent": caller.agent, "mine": list(known_as(session, caller.agent))}
    if which.principals:
        parts.append("outcome.of_principal")
        params["principals"] = list(all_known_as(session, which.principals))
    for name, part in (("namespace", "in"), ("domain", "domain"), ("since", "since")):
        if (value := getattr(which, name)) is not None:
            parts.append(f"outcome.{part}")
            params[name] = value
    if not which.archived:
        parts.append("outcome.current")
    if which.unlearned:
        parts.append("outcome.unlearned")
    found = [Outcome(*row) for row in session.assembled([*parts, "outcome.page"], params)]
    return [outcome for outcome in found if caller.reaches(outcome.namespace)]


def archive(session: Session, keep: int, now: int) -> int:
    """Archive all but the newest `keep` outcomes per principal; return their number."""
    return len(session.rows("outcome_archive", keep=keep, now=now))


def drop(session: Session, before: int) -> int:
    """Delete outcomes archived before a time; return their number."""
    return len(session.rows("outcome_drop", before=before))


def learned(session: Session, ids: Sequence[str], lesson: str) -> None:
    """Assign outcomes to a lesson."""
    session.do("outcome_learned", ids=list(ids), lesson=lesson)
