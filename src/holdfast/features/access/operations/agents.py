"""Agents, their messages and their grants."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from holdfast.features.access import agents
from holdfast.features.access.model import Permission
from holdfast.features.access.notice import Notice
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Actor, AgentId, Id, Metadata, Priority, Title
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation
from holdfast.kernel.timestamps import TimeText, format_timestamp


class AgentRegister(Request, frozen=True):
    agent_id: Annotated[AgentId, Meta(description="The agent to register.", extra={"argument": True})]
    agent_type: Annotated[str, Meta(min_length=1, max_length=64, description="Type: human, system or ai:<name>.")]
    capabilities: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=128)]],
        Meta(max_length=64, description="Capabilities, such as search."),
    ] = []


class AgentView(Struct, frozen=True, kw_only=True):
    agent_id: str
    agent_type: str
    capabilities: list[str]
    registered_at: TimeText
    last_seen_at: TimeText


class AgentRegisterResult(AgentView, frozen=True, kw_only=True):
    registered: bool
    id: str


@operation(
    Effect.WRITE,
    "POST /api/v1/agents",
    cli=("agents", "register"),
    status=201,
    examples=(
        Example({"agent_id": "ai:scout@laptop", "agent_type": "ai:scout", "capabilities": ["search"]}),
        Example({"agent_id": "no blanks allowed", "agent_type": "human"}, error="VALIDATION_FAILED"),
        Example({"agent_id": "ai:scout@laptop", "agent_type": "ai:scout"}, prepared=True),
    ),
)
def agent_register(ctx: Context, request: AgentRegister) -> AgentRegisterResult:
    """Register an agent with its capabilities."""
    agent = agents.register(ctx, request.agent_id, request.agent_type, tuple(request.capabilities))
    return AgentRegisterResult(
        registered=True,
        id=agent.id,
        agent_id=agent.id,
        agent_type=agent.agent_type,
        capabilities=list(agent.capabilities),
        registered_at=format_timestamp(agent.created_at),
        last_seen_at=format_timestamp(agent.updated_at),
    )


class AgentPage(Struct, frozen=True, kw_only=True):
    agents: list[AgentView]
    count: int


@operation(Effect.READ, "GET /api/v1/agents", cli=("agents", "list"), examples=(Example({}),))
def agent_list(ctx: Context, request: EmptyRequest) -> AgentPage:
    """List the registered agents."""
    with ctx.reading() as session:
        found = agents.list_agents(session)
    views = [
        AgentView(
            agent_id=agent.id,
            agent_type=agent.agent_type,
            capabilities=list(agent.capabilities),
            registered_at=format_timestamp(agent.created_at),
            last_seen_at=format_timestamp(last_seen or agent.updated_at),
        )
        for agent, last_seen in found
    ]
    return AgentPage(agents=views, count=len(views))


class Notify(Request, frozen=True):
    target_agent_id: Annotated[AgentId, Meta(description="The agent to notify.")]
    title: Title
    payload: Annotated[
        str,
        Meta(min_length=1, max_length=65_536, description="Text of the message.", extra={"short": "c", "stdin": True}),
    ]
    priority: Priority = 5
    metadata: Metadata = {}
    agent_id: Actor | None = None


class NotifyResult(Struct, frozen=True, kw_only=True):
    id: str
    to: str
    title: str
    delivered_at: TimeText
    sender: str


@operation(
    Effect.WRITE,
    "POST /api/v1/notify",
    cli=("agents", "notify"),
    aliases=("notify",),
    status=201,
    examples=(
        Example({"target_agent_id": "ai:scout@laptop", "title": "Ping", "payload": "Are you there?"}),
        Example({"target_agent_id": "ai:scout@laptop", "title": "Ping"}, error="VALIDATION_FAILED"),
    ),
)
def notify(ctx: Context, request: Notify) -> NotifyResult:
    """Send a message to another agent."""
    notice = agents.notify(
        ctx,
        Notice(
            ctx.new_id(),
            ctx.caller.agent,
            request.target_agent_id,
            request.title,
            request.payload,
            request.priority,
            request.metadata,
            ctx.now(),
            None,
        ),
    )
    return NotifyResult(
        id=notice.id,
        to=notice.recipient,
        title=notice.title,
        delivered_at=format_timestamp(notice.created_at),
        sender=notice.sender,
    )


class Inbox(Request, frozen=True):
    agent_id: Actor | None = None
    unread_only: Annotated[bool, Meta(description="Only unread messages.")] = False
    limit: Annotated[int, Meta(ge=1, le=500, description="Maximum number of messages.")] = 50


class NoticeView(Struct, frozen=True, kw_only=True):
    id: str
    sender: str
    to: str
    title: str
    payload: str
    priority: int
    metadata: dict[str, Any]
    created_at: TimeText
    read: bool


class InboxPage(Struct, frozen=True, kw_only=True):
    agent_id: str
    messages: list[NoticeView]
    count: int
    unread_only: bool


@operation(
    Effect.READ,
    "GET /api/v1/inbox",
    cli=("agents", "inbox"),
    aliases=("inbox",),
    human="holdfast.features.access.render:render_inbox",
    examples=(
        Example({}),
        Example({"limit": 501}, error="VALIDATION_FAILED"),
        Example({"unread_only": True}, prepared=True),
    ),
)
def inbox(ctx: Context, request: Inbox) -> InboxPage:
    """List your messages."""
    with ctx.reading() as session:
        found = agents.inbox(ctx, session, unread_only=request.unread_only, limit=request.limit)
    views = [
        NoticeView(
            id=notice.id,
            sender=notice.sender,
            to=notice.recipient,
            title=notice.title,
            payload=notice.body,
            priority=notice.priority,
            metadata=notice.metadata,
            created_at=format_timestamp(notice.created_at),
            read=notice.read_at is not None,
        )
        for notice in found
    ]
    return InboxPage(agent_id=ctx.caller.agent, messages=views, count=len(views), unread_only=request.unread_only)


NoticeId = Annotated[str, Meta(min_length=1, max_length=128, description="Id of a message.")]


class InboxRead(Request, frozen=True):
    ids: Annotated[
        list[NoticeId], Meta(min_length=1, max_length=500, description="Ids of messages.", extra={"argument": True})
    ]
    agent_id: Actor | None = None


class InboxReadResult(Struct, frozen=True, kw_only=True):
    read: list[str]
    """Ids that were unread."""
    missing: list[str]
    """Ids that are not messages of yours."""
    count: int


@operation(
    Effect.WRITE,
    "POST /api/v1/inbox/read",
    cli=("agents", "inbox-read"),
    aliases=("inbox-read",),
    examples=(
        Example({"ids": ["no-such-message"]}),
        Example({"ids": []}, error="VALIDATION_FAILED"),
        Example({"ids": ["36b0d9ec"]}, prepared=True),
    ),
)
def inbox_read(ctx: Context, request: InboxRead) -> InboxReadResult:
    """Mark your messages as read."""
    read, missing = agents.mark_read(ctx, request.ids)
    return InboxReadResult(read=read, missing=missing, count=len(read))


class GrantRequest(Request, frozen=True):
    id: Id
    agent_id: Annotated[AgentId, Meta(description="The agent that gets the right.", extra={"argument": True})]
    permission: Annotated[Permission, Meta(description="read, write, or admin (manage grants).")] = "read"


class GrantAnswer(Struct, frozen=True, kw_only=True):
    id: str
    agent_id: str
    permission: str
    granted: bool
    revoked: bool


@operation(
    Effect.WRITE,
    "POST /api/v1/memories/{id}/grant",
    cli=("agents", "grant"),
    aliases=("grant",),
    human="holdfast.features.access.render:render_grant",
    examples=(
        Example({"id": "no-such-memory", "agent_id": "ai:scout@laptop"}, error="NOT_FOUND"),
        Example({"id": "1f3a9c20", "agent_id": "ai:scout@laptop"}, prepared=True),
        Example({"id": "1f3a9c20", "agent_id": "ai:scout@laptop", "permission": "write"}, prepared=True),
    ),
)
def grant(ctx: Context, request: GrantRequest) -> GrantAnswer:
    """Let another agent read or change one of your private memories."""
    result = agents.grant(ctx, request.id, request.agent_id, request.permission)
    return GrantAnswer(
        id=result.memory, agent_id=result.agent, permission=result.permission, granted=True, revoked=False
    )


class RevokeRequest(Request, frozen=True):
    id: Id
    agent_id: Annotated[AgentId, Meta(description="The agent that loses the right.", extra={"argument": True})]


@operation(
    Effect.WRITE,
    "POST /api/v1/memories/{id}/revoke",
    cli=("agents", "revoke"),
    aliases=("revoke",),
    human="holdfast.features.access.render:render_grant",
    examples=(
        Example({"id": "no-such-memory", "agent_id": "ai:scout@laptop"}, error="NOT_FOUND"),
        Example({"id": "8b2e41d7", "agent_id": "ai:scout@laptop"}, prepared=True),
    ),
)
def revoke(ctx: Context, request: RevokeRequest) -> GrantAnswer:
    """Revoke another agent's grant on a memory."""
    result = agents.revoke(ctx, request.id, request.agent_id)
    return GrantAnswer(
        id=result.memory, agent_id=result.agent, permission=result.permission, granted=False, revoked=True
    )
