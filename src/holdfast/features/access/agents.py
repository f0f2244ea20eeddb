"""Register agents, send messages between agents, and manage grants on private memories."""

from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.features.access.model import AGENT, Agent, Notice, SeenAgent, agent_of
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories import store_memory
from holdfast.features.memories.grant import GRANT, Grant, Permission
from holdfast.features.memories.read_memories import require_owner
from holdfast.features.namespaces.resolve_rules import EVERYWHERE
from holdfast.kernel.context import Context, validate_agent_id, validate_agent_type
from holdfast.kernel.errors import Invalid, NotFound
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Row, Session
from holdfast.kernel.timestamps import derive_id

MAX_AGENTS = 10_000


def register(ctx: Context, agent_id: str, agent_type: str, capabilities: tuple[str, ...]) -> Agent:
    """Register an agent; registering again updates its type and capabilities."""
    validate_agent_id(agent_id), validate_agent_type(agent_type)
    capabilities = tuple(dict.fromkeys(validate.label("capabilities", name, 128) for name in capabilities))
    with ctx.transaction() as write:
        existing = write.get(AGENT, agent_id)
        if existing is None:
            fresh = Agent(agent_id, agent_type, capabilities, write.now, write.now, write.origin, 1)
            return write.add(AGENT, fresh, "register")
        changed = replace(existing, agent_type=agent_type, capabilities=capabilities, state="live")
        return write.change(AGENT, existing, changed, "register")


def list_agents(session: Session) -> list[SeenAgent]:
    """List the agents with the time of their last change here."""
    agents = [agent_of(row) for row in session.rows("agent_all", after="", limit=MAX_AGENTS)]
    return [
        SeenAgent(**msgspec.structs.asdict(agent), last_seen_at=_last_seen(session, agent.id) or agent.updated_at)
        for agent in agents
        if agent.state == "live"
    ]


def _last_seen(session: Session, agent_id: str) -> int | None:
    row = session.row("journal_last_change_of", actor=agent_id)
    return row[0] if row else None


def notify(ctx: Context, recipient: str, title: str, body: str, priority: int, metadata: dict[str, Any]) -> Notice:
    """Leave a message for another agent."""
    validate_agent_id(recipient, "target_agent_id")
    given = {
        "title": validate.title(title),
        "body": validate.content(body, "payload"),
        "metadata": validate.caller_metadata(metadata),
    }
    with ctx.transaction() as write:
        texts = store_memory.filter_secrets(write.session, EVERYWHERE, given)[0]
        sender, at = ctx.caller.agent, ctx.now()
        notice = Notice(id=ctx.new_id(), sender=sender, recipient=recipient, priority=priority, created_at=at, **texts)
        params = msgspec.structs.asdict(notice) | {"metadata": msgspec.json.encode(notice.metadata).decode()}
        write.session.do("notice_add", **params)
    return notice


def inbox(ctx: Context, session: Session, *, unread_only: bool, limit: int) -> list[Notice]:
    """List the caller's messages, newest first."""
    statement = "notice_unread" if unread_only else "notice_list"
    return [notice_of(row) for row in session.rows(statement, recipient=ctx.caller.agent, limit=limit)]


def notice_of(row: Row) -> Notice:
    values = list(row)
    values[6] = msgspec.json.decode(row[6])
    return Notice(*values)


def mark_read(ctx: Context, notices: list[str]) -> tuple[list[str], list[str]]:
    """Mark messages of the caller as read; return those that were unread and the ids that do not exist."""
    with ctx.transaction() as write:
        mine = {row[0] for row in write.session.rows("notice_some", recipient=ctx.caller.agent, ids=notices)}
        rows = write.session.rows("notice_read", recipient=ctx.caller.agent, ids=notices, now=write.now)
    return sorted(row[0] for row in rows), [id for id in notices if id not in mine]


def grant(ctx: Context, memory_id: str, agent_id: str, permission: Permission) -> Grant:
    """Let another agent read, write or manage a private memory."""
    validate_agent_id(agent_id)
    with ctx.transaction() as write:
        memory = _get_manageable(ctx, write, memory_id)
        if agent_id == memory.agent:
            raise Invalid("agent_id: is the owner, who needs no grant", fields=["agent_id"])
        id = derive_id("grant", memory.id, agent_id)
        existing = write.get(GRANT, id)
        if existing is None:
            fresh = Grant(id, memory.id, agent_id, permission, ctx.caller.agent, write.now, write.now, write.origin, 1)
            return write.add(GRANT, fresh, "grant")
        return write.change(GRANT, existing, replace(existing, permission=permission, state="live"), "grant")


def revoke(ctx: Context, memory_id: str, agent_id: str) -> Grant:
    """Revoke a grant; effective from the next call."""
    with ctx.transaction() as write:
        memory = _get_manageable(ctx, write, memory_id)
        existing = write.get(GRANT, derive_id("grant", memory.id, agent_id))
        if existing is None or existing.state != "live":
            raise NotFound(f"{agent_id!r} has no grant on {memory.id}.", id=memory.id)
        return write.change(GRANT, existing, replace(existing, state="deleted"), "revoke")


def _get_manageable(ctx: Context, write: Transaction, id: str) -> Memory:
    """Return a memory whose grants the caller may manage: as its owner or with an admin grant."""
    memory = memories.resolve(write.session, ctx.caller, id, write.now, view="kept")
    require_owner(ctx, write, memory)
    return memory
