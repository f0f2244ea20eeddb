"""Storage of outcomes: local to this store, not replicated."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.features.learning.lesson_rules import Outcome
from holdfast.features.people.resolve_names import list_all_names, list_names
from holdfast.kernel.context import Caller
from holdfast.kernel.storage.local_table import Export, LocalTable, Owner
from holdfast.kernel.storage.port import Session, SqlPart

OUTCOMES = LocalTable(
    Outcome,
    "outcome",
    plural="outcomes",
    owner=Owner("at"),
    updates=("lesson", "archived_at"),
    export=Export("outcomes", latest=lambda one: (one.archived_at or 0, one.lesson is not None)),
)


class OutcomeFilter(NamedTuple):
    """Filter for outcomes that the caller may see."""

    principals: tuple[str, ...] = ()
    namespace: str | None = None
    domain: str | None = None
    since: int | None = None
    unlearned: bool = False
    archived: bool = False
    """Include archived outcomes."""


def list_outcomes(session: Session, caller: Caller, which: OutcomeFilter, limit: int) -> list[Outcome]:
    """List outcomes, newest first. Agents see those they recorded and those about them; admins see all."""
    parts: list[SqlPart] = []
    params: dict[str, Any] = {"limit": limit}
    if not caller.has_right("admin"):
        parts.append("outcome.of_agent")
        params |= {"agent": caller.agent, "mine": list(list_names(session, caller.agent))}
    if which.principals:
        parts.append("outcome.of_principal")
        params["principals"] = list(list_all_names(session, which.principals))
    for name, part in (("namespace", "in"), ("domain", "domain"), ("since", "since")):
        if (value := getattr(which, name)) is not None:
            parts.append(f"outcome.{part}")
            params[name] = value
    if not which.archived:
        parts.append("outcome.current")
    if which.unlearned:
        parts.append("outcome.without_lesson")
    found = OUTCOMES.select(session, [*parts, "outcome.page"], params)
    return [outcome for outcome in found if caller.can_access(outcome.namespace)]


def archive_outcomes(session: Session, keep: int, now: int) -> int:
    """Archive all but the newest `keep` outcomes per principal; return their number."""
    return len(session.rows("outcome_archive", keep=keep, now=now))


def delete_outcomes(session: Session, before: int) -> int:
    """Delete outcomes archived before a time; return their number."""
    return len(session.rows("outcome_delete", before=before))


def set_lesson(session: Session, ids: Sequence[str], lesson: str) -> None:
    """Assign outcomes to a lesson."""
    session.do("outcome_set_lesson", ids=list(ids), lesson=lesson)
