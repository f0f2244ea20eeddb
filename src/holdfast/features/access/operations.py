"""Agents, their messages and their grants, and API keys."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict

from holdfast.features.access import agents, keys
from holdfast.features.access.keys import Key
from holdfast.features.access.model import Notice, SeenAgent
from holdfast.features.memories.grant import Permission
from holdfast.kernel.context import ALL_NAMESPACES, Context, Right
from holdfast.kernel.records.fields import Named, computed
from holdfast.kernel.registry.fields import Actor, AgentId, Id, Metadata, Priority, Title
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation
from holdfast.kernel.timestamps import Time


class AgentRegister(Request, frozen=True):
    agent_id: Annotated[AgentId, Meta(description="The agent to register.", extra={"argument": True})]
    agent_type: Annotated[str, Meta(min_length=1, max_length=64, description="Type: human, system or ai:<name>.")]
    capabilities: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=128)]],
        Meta(max_length=64, description="Capabilities, such as search."),
    ] = []


class AgentRegisterResult(SeenAgent, frozen=True, kw_only=True):
    registered: bool = True

    @computed
    def record_id(self) -> Annotated[str, Named("id")]:
        return self.id


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
    return AgentRegisterResult(**asdict(agent), last_seen_at=agent.updated_at)


class AgentPage(Struct, frozen=True, kw_only=True):
    agents: list[SeenAgent]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/agents",
    cli=("agents", "list"),
    columns=("agent_id", "agent_type", "capabilities", "last_seen_at"),
    examples=(Example({}),),
)
def agent_list(ctx: Context, request: EmptyRequest) -> AgentPage:
    """List the registered agents."""
    with ctx.reading() as session:
        found = agents.list_agents(session)
    return AgentPage(agents=found, count=len(found))


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
    delivered_at: Time
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
        ctx, request.target_agent_id, request.title, request.payload, request.priority, request.metadata
    )
    return NotifyResult(
        id=notice.id, to=notice.recipient, title=notice.title, delivered_at=notice.created_at, sender=notice.sender
    )


class Inbox(Request, frozen=True):
    agent_id: Actor | None = None
    unread_only: Annotated[bool, Meta(description="Only unread messages.")] = False
    limit: Annotated[int, Meta(ge=1, le=500, description="Maximum number of messages.")] = 50


class InboxPage(Struct, frozen=True, kw_only=True):
    agent_id: str
    messages: list[Notice]
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
    return InboxPage(agent_id=ctx.caller.agent, messages=found, count=len(found), unread_only=request.unread_only)


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
    columns=("agent_id", "permission"),
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
    columns=("agent_id", "permission"),
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


class KeyCreate(Request, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=64, description="Name of the key.", extra={"argument": True})]
    scope: Annotated[Right, Meta(description="Right: read, write, or admin (everything, keys included).")] = "write"
    namespaces: (
        Annotated[
            list[Annotated[str, Meta(min_length=1, max_length=514)]],
            Meta(
                min_length=1,
                max_length=32,
                description="Namespaces with everything below: team/project or team/project/* [default: all].",
            ),
        ]
        | None
    ) = None
    agent_id: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=128,
                description="Agent of the key [default: key:NAME]. *: taken from the request.",
                extra={"flag": "agent"},
            ),
        ]
        | None
    ) = None


class KeyCreateResult(Key, frozen=True, kw_only=True):
    key: str
    """The secret, shown only once."""


@operation(
    Effect.WRITE,
    "POST /api/v1/keys",
    cli=("agents", "key", "create"),
    aliases=("keys create",),
    status=201,
    admin=True,
    surfaces=("library", "cli", "http"),
    human="holdfast.features.access.render:render_new_key",
    examples=(
        Example({"name": "laptop", "scope": "read", "namespaces": ["team/*"]}),
        Example({"name": "no blanks"}, error="VALIDATION_FAILED"),
        Example({"name": "laptop", "scope": "read"}, prepared=True),
    ),
)
def key_create(ctx: Context, request: KeyCreate) -> KeyCreateResult:
    """Create an API key; its secret is shown only once."""
    key, secret = keys.create(ctx, request.name, request.scope, request.namespaces or ALL_NAMESPACES, request.agent_id)
    return KeyCreateResult(**asdict(key), key=secret)


class KeyPage(Struct, frozen=True, kw_only=True):
    keys: list[Key]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/keys",
    cli=("agents", "key", "list"),
    aliases=("keys list",),
    admin=True,
    examples=(Example({}),),
)
def key_list(ctx: Context, request: EmptyRequest) -> KeyPage:
    """List API keys, including revoked ones."""
    with ctx.reading() as session:
        found = keys.list_keys(ctx, session)
    return KeyPage(keys=found, count=len(found))


class KeyRevoke(Request, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=128, description="Id of the key.", extra={"argument": True})]


@operation(
    Effect.DESTROY,
    "DELETE /api/v1/keys/{id}",
    cli=("agents", "key", "revoke"),
    aliases=("keys revoke",),
    admin=True,
    examples=(Example({"id": "no-such-key"}, error="NOT_FOUND"), Example({"id": "c7f2086b"}, prepared=True)),
)
def key_revoke(ctx: Context, request: KeyRevoke) -> Key:
    """Revoke a key permanently, effective immediately."""
    return keys.revoke(ctx, request.id)
