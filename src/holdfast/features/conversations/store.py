"""Read and write conversations and their turns."""

from typing import Any, Literal, NamedTuple

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.people.store import all_known_as, known_as
from holdfast.kernel.caller import Caller
from holdfast.kernel.errors import NotFound
from holdfast.kernel.journal.kinds import memory_of
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Part, Session

State = Literal["active", "closing", "closed"]


class Scope(NamedTuple):
    """Channel, principal and namespace that identify an active conversation."""

    channel: str
    principal: str
    namespace: str


class Conversation(NamedTuple):
    id: str
    channel: str
    principal: str
    agent: str
    namespace: str
    state: State
    started_at: int
    last_at: int
    closed_at: int | None
    turns: int
    """Number of turns; they are numbered from 1."""
    covered: int
    """Number of the last turn that the summary covers."""
    summary: str | None
    """Id of the summary memory."""
    pruned: bool
    """Whether its turns are archived."""


class Which(NamedTuple):
    principals: tuple[str, ...] = ()
    channel: str | None = None
    namespace: str | None = None
    state: State | None = None


def put(session: Session, conversation: Conversation) -> None:
    session.do("conversation_put", **{**conversation._asdict(), "pruned": int(conversation.pruned)})


def of_row(row: tuple[Any, ...]) -> Conversation:
    values = list(row)
    values[12] = bool(row[12])
    return Conversation(*values)


def going_on(session: Session, scope: Scope) -> list[Conversation]:
    """List the active conversations of a scope, under any name of the principal, latest first."""
    names = list(known_as(session, scope.principal))
    rows = session.rows("conversation_going_on", channel=scope.channel, namespace=scope.namespace, principals=names)
    return [of_row(row) for row in rows]


def seen(session: Session, caller: Caller, id: str) -> Conversation:
    """Return a conversation of the caller's agent or person; admins see all. Raise NotFound otherwise."""
    row = session.row("conversation_get", id=id)
    found = of_row(row) if row else None
    if found is None or not _may(session, caller, found):
        raise NotFound(f"No conversation {id!r}, or it is not yours.")
    return found


def _may(session: Session, caller: Caller, one: Conversation) -> bool:
    own = caller.may("admin") or caller.agent == one.agent or one.principal in known_as(session, caller.agent)
    return own and caller.reaches(one.namespace)


def idle(session: Session, before: int, limit: int) -> list[Conversation]:
    return [of_row(row) for row in session.rows("conversation_idle", before=before, limit=limit)]


def old(session: Session, before: int, limit: int) -> list[Conversation]:
    return [of_row(row) for row in session.rows("conversation_old", before=before, limit=limit)]


def select(session: Session, caller: Caller, which: Which, limit: int, skip: int) -> list[Conversation]:
    """List conversations that the caller may see, latest first."""
    parts: list[Part] = ["conversation_select"]
    params: dict[str, Any] = {"limit": limit, "skip": skip}
    if not caller.may("admin"):
        parts.append("conversation.of_agent")
        params |= {"agent": caller.agent, "mine": list(known_as(session, caller.agent))}
    if which.principals:
        parts.append("conversation.of_principal")
        params["principals"] = list(all_known_as(session, which.principals))
    for name, part in (("channel", "channel"), ("namespace", "in"), ("state", "state")):
        if (value := getattr(which, name)) is not None:
            parts.append(f"conversation.{part}")
            params[name] = value
    found = [of_row(row) for row in session.assembled([*parts, "conversation.page"], params)]
    return [one for one in found if caller.reaches(one.namespace)]


def count(session: Session, caller: Caller, names: tuple[str, ...]) -> int:
    """Count the conversations under these names that the caller may see."""
    rows = session.rows("conversation_count", **_whose(session, caller, names))
    return sum(number for namespace, number in rows if caller.reaches(namespace))


def count_turns(session: Session, caller: Caller, names: tuple[str, ...], now: int) -> int:
    """Count the turns of these conversations that the caller may see."""
    parts, params = memories.narrowed(caller, Filter(kinds=("conversation",)), now)
    asked = params | _whose(session, caller, names)
    return int(session.assembled(("memory_count", *parts, "memory.of_talks"), asked)[0][0])


def _whose(session: Session, caller: Caller, names: tuple[str, ...]) -> dict[str, Any]:
    mine = list(known_as(session, caller.agent))
    return {"principals": list(names), "all": caller.may("admin"), "me": caller.agent, "mine": mine}


def turns(
    session: Session, caller: Caller, one: Conversation, now: int, *, after: int, limit: int, archived: bool = False
) -> list[Memory]:
    """List the visible turns of a conversation in order, after a given number."""
    which = Filter(namespace=one.namespace, kinds=("conversation",), archived=archived)
    parts, params = memories.narrowed(caller, which, now)
    asked = params | {"thread": one.id, "after": after, "limit": limit}
    return [memory_of(row) for row in session.assembled(("memory_select", *parts, "memory.of_thread"), asked)]


def last_turns(session: Session, caller: Caller, one: Conversation, now: int, limit: int) -> list[Memory]:
    """List the last turns in order."""
    parts, params = memories.narrowed(caller, Filter(namespace=one.namespace, kinds=("conversation",)), now)
    asked = params | {"thread": one.id, "limit": limit}
    rows = session.assembled(("memory_select", *parts, "memory.of_thread_last"), asked)
    return [memory_of(row) for row in reversed(rows)]
