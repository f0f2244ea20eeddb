"""Query interactions that the caller may see."""

from typing import Any, NamedTuple

from holdfast.features.people.interaction import INTERACTION, Decision, Interaction
from holdfast.features.people.resolve_names import list_all_names, list_names
from holdfast.kernel.context import Caller
from holdfast.kernel.storage.port import Session, SqlPart


class InteractionFilter(NamedTuple):
    """Filter for interactions that the caller may see."""

    principals: tuple[str, ...] = ()
    statuses: tuple[Decision, ...] = ()
    channel: str | None = None
    namespace: str | None = None
    since: int | None = None
    until: int | None = None


def select_interactions(
    session: Session, caller: Caller, which: InteractionFilter, limit: int, skip: int
) -> list[Interaction]:
    """List interactions, latest first. Agents see those they recorded and their own; admins see all."""
    parts, params = _filter_clauses(session, caller, which)
    rows = session.select(["interaction_select", *parts, "interaction.page"], params | {"limit": limit, "skip": skip})
    return [INTERACTION.load(row) for row in rows]


def count_by_status(session: Session, caller: Caller, which: InteractionFilter) -> dict[str, int]:
    """Count interactions by status."""
    parts, params = _filter_clauses(session, caller, which)
    rows = session.select(["interaction_counts", *parts, "interaction.grouped"], params)
    return {status: int(count) for status, count in rows}


def get_visible(session: Session, caller: Caller, id: str) -> Interaction | None:
    """Return an interaction if the caller may see it, else None."""
    row = session.row("interaction_get", id=id)
    found = INTERACTION.load(row) if row else None
    return found if found is not None and may_see(session, caller, found) else None


def may_see(session: Session, caller: Caller, one: Interaction) -> bool:
    own = caller.has_right("admin") or caller.agent == one.agent or one.principal in list_names(session, caller.agent)
    return own and caller.can_access(one.namespace)


def _filter_clauses(session: Session, caller: Caller, which: InteractionFilter) -> tuple[list[SqlPart], dict[str, Any]]:
    parts: list[SqlPart] = []
    params: dict[str, Any] = {}
    if not caller.has_right("admin"):
        parts.append("interaction.of_agent")
        params |= {"agent": caller.agent, "mine": list(list_names(session, caller.agent))}
    if "*" not in caller.namespaces:
        reach = list(caller.namespaces) or [" "]
        parts += [
            ("interaction.reach_more" if number else "interaction.reach_first", number) for number in range(len(reach))
        ]
        parts.append("interaction.reach_end")
        params |= {f"reach_{number}": path for number, path in enumerate(reach)}
    if which.principals:
        parts.append("interaction.of_principal")
        params["principals"] = list(list_all_names(session, which.principals))
    if which.statuses:
        parts.append("interaction.status")
        params["statuses"] = list(which.statuses)
    for name, part in (("channel", "channel"), ("namespace", "in"), ("since", "since"), ("until", "until")):
        if (value := getattr(which, name)) is not None:
            parts.append(f"interaction.{part}")
            params[name] = value
    return parts, params
