"""Register agents, send messages between agents, and manage grants on private memories."""

import msgspec
from msgspec.structs import replace

from holdfast.features.access.model import AGENT, GRANT, Agent, Grant, Permission, agent_of
from holdfast.features.access.notice import Notice
from holdfast.features.memories import dedup as hygiene
from holdfast.features.memories import store as memories
from holdfast.features.memories.store_memory import must_decide
from holdfast.features.namespaces.policy_store import EVERYWHERE
from holdfast.kernel import ids
from holdfast.kernel.caller import admit_agent, admit_agent_type
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid, NotFound
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Row, Session

MOST_AGENTS = 10_000


def register(hold: Hold, agent_id: str, agent_type: str, capabilities: tuple[str, ...]) -> Agent:
    """Register an agent; registering again updates its type and capabilities."""
    admit_agent(agent_id), admit_agent_type(agent_type)
    capabilities = tuple(dict.fromkeys(door.label("capabilities", name, 128) for name in capabilities))
    with hold.writing() as write:
        known = write.get(AGENT, agent_id)
        if known is None:
            fresh = Agent(agent_id, agent_type, capabilities, write.now, write.now, write.origin, 1)
            return write.add(AGENT, fresh, "register")
        changed = replace(known, agent_type=agent_type, capabilities=capabilities, state="live")
        return write.change(AGENT, known, changed, "register")


def registered(session: Session) -> list[tuple[Agent, int | None]]:
    """List the agents with the time of their last change here."""
    agents = [agent_of(row) for row in session.rows("agent_all", after="", limit=MOST_AGENTS)]
    return [(agent, _last_seen(session, agent.id)) for agent in agents if agent.state == "live"]


def _last_seen(session: Session, agent_id: str) -> int | None:
    row = session.row("journal_seen_last", actor=agent_id)
    return row[0] if row else None


def notify(hold: Hold, notice: Notice) -> Notice:
    """Leave a message for another agent."""
    admit_agent(notice.recipient, "target_agent_id")
    clean = replace(
        notice,
        title=door.title(notice.title),
        body=door.content(notice.body, "payload"),
        metadata=door.said_metadata(notice.metadata),
    )
    with hold.writing() as write:
        given = {"title": clean.title, "body": clean.body, "metadata": clean.metadata}
        clean = replace(clean, **hygiene.permitted(write.session, EVERYWHERE, given)[0])
        params = msgspec.structs.asdict(clean) | {"metadata": msgspec.json.encode(clean.metadata).decode()}
        write.session.do("notice_add", **params)
    return clean


def inbox(hold: Hold, session: Session, *, unread_only: bool, limit: int) -> list[Notice]:
    """List the caller's messages, newest first."""
    statement = "notice_unread" if unread_only else "notice_list"
    return [notice_of(row) for row in session.rows(statement, recipient=hold.caller.agent, limit=limit)]


def notice_of(row: Row) -> Notice:
    values = list(row)
    values[6] = msgspec.json.decode(row[6])
    return Notice(*values)


def mark_read(hold: Hold, notices: list[str]) -> tuple[list[str], list[str]]:
    """Mark messages of the caller as read; return those that were unread and the ids that do not exist."""
    with hold.writing() as write:
        mine = {row[0] for row in write.session.rows("notice_some", recipient=hold.caller.agent, ids=notices)}
        rows = write.session.rows("notice_read", recipient=hold.caller.agent, ids=notices, now=write.now)
    return sorted(row[0] for row in rows), [id for id in notices if id not in mine]


def grant(hold: Hold, memory_id: str, agent_id: str, permission: Permission) -> Grant:
    """Let another agent read, write or manage a private memory."""
    admit_agent(agent_id)
    with hold.writing() as write:
        memory = _managed(hold, write, memory_id)
        if agent_id == memory.agent:
            raise Invalid("agent_id: is the owner, who needs no grant", fields=["agent_id"])
        id = ids.derived("grant", memory.id, agent_id)
        known = write.get(GRANT, id)
        if known is None:
            fresh = Grant(id, memory.id, agent_id, permission, hold.caller.agent, write.now, write.now, write.origin, 1)
            return write.add(GRANT, fresh, "grant")
        return write.change(GRANT, known, replace(known, permission=permission, state="live"), "grant")


def revoke(hold: Hold, memory_id: str, agent_id: str) -> Grant:
    """Revoke a grant; effective from the next call."""
    with hold.writing() as write:
        memory = _managed(hold, write, memory_id)
        known = write.get(GRANT, ids.derived("grant", memory.id, agent_id))
        if known is None or known.state != "live":
            raise NotFound(f"{agent_id!r} has no grant on {memory.id}.", id=memory.id)
        return write.change(GRANT, known, replace(known, state="deleted"), "revoke")


def _managed(hold: Hold, write: Transaction, id: str) -> Memory:
    """Return a memory whose grants the caller may manage: as its owner or with an admin grant."""
    memory = memories.resolve(write.session, hold.caller, id, write.now, view="kept")
    must_decide(hold, write, memory)
    return memory
