"""Query interactions that the caller may see."""

from typing import Any, NamedTuple

from holdfast.features.access.interaction import INTERACTION, Decision, Interaction
from holdfast.features.people.store import all_known_as, known_as
from holdfast.kernel.caller import Caller
from holdfast.kernel.storage.port import Part, Session


class Which(NamedTuple):
    """Filter for interactions that the caller may see."""

    principals: tuple[str, ...] = ()
    statuses: tuple[Decision, ...] = ()
    channel: str | None = None
    namespace: str | None = None
    since: int | None = None
    until: int | None = None


def select(session: Session, caller: Caller, which: Which, limit: int, skip: int) -> list[Interaction]:
    """List interactions, latest first. Agents see those they recorded and their own; admins see all."""
    parts, params = _narrowed(session, caller, which)
    rows = session.assembled(
        ["interaction_select", *parts, "interaction.page"], params | {"limit": limit, "skip": skip}
    )
    return [INTERACTION.load(row) for row in rows]


def counts(session: Session, caller: Caller, which: Which) -> dict[str, int]:
    """Count interactions by status."""
    parts, params = _narrowed(session, caller, which)
    rows = session.assembled(["interaction_counts", *parts, "interaction.grouped"], params)
    return {status: int(count) for status, count in rows}


def seen(session: Session, caller: Caller, id: str) -> Interaction | None:
    """Return an interaction if the caller may see it, else None."""
    row = session.row("interaction_get", id=id)
    found = INTERACTION.load(row) if row else None
    return found if found is not None and may_see(session, caller, found) else None


def may_see(session: Session, caller: Caller, one: Interaction) -> bool:
    own = caller.may("admin") or caller.agent == one.agent or one.principal in known_as(session, caller.agent)
    return own and caller.reaches(one.namespace)


def _narrowed(session: Session, caller: Caller, which: Which) -> tuple[list[Part], dict[str, Any]]:
    parts: list[Part] = []
    params: dict[str, Any] = {}
    if not caller.may("admin"):
        parts.append("interaction.of_agent")
        params |= {"agent": caller.agent, "mine": list(known_as(session, caller.agent))}
    if "*" not in caller.namespaces:
        reach = list(caller.namespaces) or [" "]
        parts += [
            ("interaction.reach_more" if number else "interaction.reach_first", number) for number in range(len(reach))
        ]
        parts.append("interaction.reach_end")
        params |= {f"reach_{number}": path for number, path in enumerate(reach)}
    if which.principals:
        parts.append("interaction.of_principal")
        params["principals"] = list(all_known_as(session, which.principals))
    if which.statuses:
        parts.append("interaction.status")
        params["statuses"] = list(which.statuses)
    for name, part in (("channel", "channel"), ("namespace", "in"), ("since", "since"), ("until", "until")):
        if (value := getattr(which, name)) is not None:
            parts.append(f"interaction.{part}")
            params[name] = value
    return parts, params
