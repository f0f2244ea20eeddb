"""Read and write conversations and their turns."""

from typing import Any, Literal, NamedTuple

from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import Filter
from holdfast.features.people.resolve_names import list_all_names, list_names
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import NotFound
from holdfast.kernel.journal.kinds import load_memory
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session, SqlPart

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


class ConversationFilter(NamedTuple):
    principals: tuple[str, ...] = ()
    channel: str | None = None
    namespace: str | None = None
    state: State | None = None


def save_conversation(session: Session, conversation: Conversation) -> None:
    session.do("conversation_put", **{**conversation._asdict(), "pruned": int(conversation.pruned)})


def conversation_of(row: tuple[Any, ...]) -> Conversation:
    values = list(row)
    values[12] = bool(row[12])
    return Conversation(*values)


def list_active(session: Session, scope: Scope) -> list[Conversation]:
    """List the active conversations of a scope, under any name of the principal, latest first."""
    names = list(list_names(session, scope.principal))
    rows = session.rows("conversation_active", channel=scope.channel, namespace=scope.namespace, principals=names)
    return [conversation_of(row) for row in rows]


def get_visible(session: Session, caller: Caller, id: str) -> Conversation:
    """Return a conversation of the caller's agent or person; admins see all. Raise NotFound otherwise."""
    row = session.row("conversation_get", id=id)
    found = conversation_of(row) if row else None
    if found is None or not _may_see(session, caller, found):
        raise NotFound(f"No conversation {id!r}, or it is not yours.")
    return found


def _may_see(session: Session, caller: Caller, one: Conversation) -> bool:
    own = caller.has_right("admin") or caller.agent == one.agent or one.principal in list_names(session, caller.agent)
    return own and caller.can_access(one.namespace)


def list_idle(session: Session, before: int, limit: int) -> list[Conversation]:
    return [conversation_of(row) for row in session.rows("conversation_idle", before=before, limit=limit)]


def list_prunable(session: Session, before: int, limit: int) -> list[Conversation]:
    return [conversation_of(row) for row in session.rows("conversation_prunable", before=before, limit=limit)]


def select_conversations(
    session: Session, caller: Caller, which: ConversationFilter, limit: int, skip: int
) -> list[Conversation]:
    """List conversations that the caller may see, latest first."""
    parts: list[SqlPart] = ["conversation_select"]
    params: dict[str, Any] = {"limit": limit, "skip": skip}
    if not caller.has_right("admin"):
        parts.append("conversation.of_agent")
        params |= {"agent": caller.agent, "mine": list(list_names(session, caller.agent))}
    if which.principals:
        parts.append("conversation.of_principal")
        params["principals"] = list(list_all_names(session, which.principals))
    for name, part in (("channel", "channel"), ("namespace", "in"), ("state", "state")):
        if (value := getattr(which, name)) is not None:
            parts.append(f"conversation.{part}")
            params[name] = value
    found = [conversation_of(row) for row in session.select([*parts, "conversation.page"], params)]
    return [one for one in found if caller.can_access(one.namespace)]


def count_conversations(session: Session, caller: Caller, names: tuple[str, ...]) -> int:
    """Count the conversations under these names that the caller may see."""
    rows = session.rows("conversation_count", **_owner_params(session, caller, names))
    return sum(number for namespace, number in rows if caller.can_access(namespace))


def count_turns(session: Session, caller: Caller, names: tuple[str, ...], now: int) -> int:
    """Count the turns of these conversations that the caller may see."""
    parts, params = memories.filter_clauses(caller, Filter(kinds=("conversation",)), now)
    all_params = params | _owner_params(session, caller, names)
    return int(session.select(("memory_count", *parts, "memory.of_conversations"), all_params)[0][0])


def _owner_params(session: Session, caller: Caller, names: tuple[str, ...]) -> dict[str, Any]:
    mine = list(list_names(session, caller.agent))
    return {"principals": list(names), "all": caller.has_right("admin"), "me": caller.agent, "mine": mine}


def list_turns(
    session: Session, caller: Caller, one: Conversation, now: int, *, after: int, limit: int, archived: bool = False
) -> list[Memory]:
    """List the visible turns of a conversation in order, after a given number."""
    which = Filter(namespace=one.namespace, kinds=("conversation",), archived=archived)
    parts, params = memories.filter_clauses(caller, which, now)
    all_params = params | {"thread": one.id, "after": after, "limit": limit}
    return [load_memory(row) for row in session.select(("memory_select", *parts, "memory.of_thread"), all_params)]


def list_last_turns(session: Session, caller: Caller, one: Conversation, now: int, limit: int) -> list[Memory]:
    """List the last turns in order."""
    parts, params = memories.filter_clauses(caller, Filter(namespace=one.namespace, kinds=("conversation",)), now)
    all_params = params | {"thread": one.id, "limit": limit}
    rows = session.select(("memory_select", *parts, "memory.of_thread_last"), all_params)
    return [load_memory(row) for row in reversed(rows)]
