"""Read and write conversations and their turns."""

from typing import Any

from msgspec.structs import replace

from holdfast.features.conversations.model import STATES, Conversation, ConversationFilter, Scope
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import Filter
from holdfast.features.people.resolve_names import list_all_names, list_names
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Invalid, NotFound
from holdfast.kernel.journal.kinds import load_memory
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.local_table import Export, LocalTable, Owner
from holdfast.kernel.storage.port import Session, SqlPart


def _validate_conversation(one: Conversation) -> Conversation:
    if one.covered > one.turns:
        raise Invalid("covered: must not exceed turns", fields=["covered"])
    return one


def _admit_conversation(session: Session, one: Conversation, trusted: bool) -> Conversation:
    """A scope has one active conversation: another one is closed by the reaper."""
    if one.state != "active":
        return one
    params = {"channel": one.channel, "namespace": one.namespace, "principals": [one.principal]}
    others = [other for other in CONVERSATIONS.select(session, _ACTIVE, params) if other.id != one.id]
    return replace(one, state="closing") if others else one


CONVERSATIONS = LocalTable(
    Conversation,
    "conversation",
    plural="conversations",
    owner=Owner("started_at"),
    export=Export(
        "conversations",
        latest=lambda one: (one.last_at, STATES.index(one.state), one.covered, one.pruned),
        validate=_validate_conversation,
        admit=_admit_conversation,
    ),
)
_ACTIVE = ("conversation.of_principal", "conversation.channel", "conversation.in", "conversation.active")


def list_active(session: Session, scope: Scope) -> list[Conversation]:
    """List the active conversations of a scope, under any name of the principal, latest first."""
    names = list(list_names(session, scope.principal))
    params = {"channel": scope.channel, "namespace": scope.namespace, "principals": names}
    return CONVERSATIONS.select(session, _ACTIVE, params)


def get_visible(session: Session, caller: Caller, id: str) -> Conversation:
    """Return a conversation of the caller's agent or person; admins see all. Raise NotFound otherwise."""
    found = CONVERSATIONS.get(session, id)
    if found is None or not _may_see(session, caller, found):
        raise NotFound(f"No conversation {id!r}, or it is not yours.")
    return found


def _may_see(session: Session, caller: Caller, one: Conversation) -> bool:
    own = caller.has_right("admin") or caller.agent == one.agent or one.principal in list_names(session, caller.agent)
    return own and caller.can_access(one.namespace)


def list_idle(session: Session, before: int, limit: int) -> list[Conversation]:
    return CONVERSATIONS.select(session, ("conversation.idle",), {"before": before, "limit": limit})


def list_prunable(session: Session, before: int, limit: int) -> list[Conversation]:
    return CONVERSATIONS.select(session, ("conversation.prunable",), {"before": before, "limit": limit})


def select_conversations(
    session: Session, caller: Caller, which: ConversationFilter, limit: int, skip: int
) -> list[Conversation]:
    """List conversations that the caller may see, latest first."""
    parts: list[SqlPart] = []
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
    found = CONVERSATIONS.select(session, [*parts, "conversation.page"], params)
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
