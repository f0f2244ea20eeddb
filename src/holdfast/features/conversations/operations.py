"""Operations on conversations: append turns, show, list, close, consolidate."""

from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from holdfast.features.conversations import consolidate
from holdfast.features.conversations import service as conversations
from holdfast.features.conversations.consolidate import ConversationConsolidateResult
from holdfast.features.conversations.model import Conversation, ConversationFilter, Scope, State, SummarizedConversation
from holdfast.features.conversations.service import PrincipalStats, ReapResult, Role
from holdfast.features.people.operations.principals import PrincipalShow
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.registry.fields import Actor, Limit, Namespace, Skip, Timestamp
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import Time, parse_time

Channel = Annotated[str, Meta(max_length=128, description="Channel, such as cli or slack.")]
Principal = Annotated[str, Meta(min_length=1, max_length=128, description="Person [default: the agent].")]
AfterTurn = Annotated[int, Meta(ge=0, le=(1 << 53) - 1, description="Only turns after this number.")]
ConversationId = Annotated[
    str, Meta(min_length=1, max_length=64, description="Id of the conversation.", extra={"argument": True})
]


class TurnInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One turn to append."""

    role: Role
    content: Annotated[str, Meta(min_length=1, max_length=65_536)]
    at: Timestamp | None = None
    metadata: dict[str, Any] = {}


class TurnView(Struct, frozen=True, kw_only=True):
    place: int
    """Number of the turn in the conversation, from 1."""
    role: str
    content: str
    at: Time
    memory_id: str


def _turn_view(memory: Memory) -> TurnView:
    return TurnView(
        place=memory.place or 0,
        role=memory.speaker or "",
        content=memory.content,
        at=memory.created_at if memory.occurred_at is None else memory.occurred_at,
        memory_id=memory.id,
    )


def _with_summary(one: Conversation, summary: Memory | None) -> SummarizedConversation:
    return SummarizedConversation(**asdict(one), summary_text=None if summary is None else summary.content)


def _scope(ctx: Context, channel: str, principal: str | None, namespace: str | None) -> Scope:
    return Scope(channel, principal or ctx.caller.agent, namespace or ctx.namespace)


class ConversationSay(Request, frozen=True):
    turns: Annotated[
        list[TurnInput], Meta(min_length=1, max_length=200, description="Turns in order: role and content.")
    ]
    channel: Channel = ""
    principal: Principal | None = None
    namespace: Namespace | None = None
    agent_id: Actor | None = None


class ConversationSayResult(Struct, frozen=True, kw_only=True):
    conversation_id: str
    began: bool
    """Whether a new conversation was started."""
    turns: list[TurnView]


@operation(
    Effect.WRITE,
    "POST /api/v1/conversations",
    cli=("conversation", "append"),
    aliases=("conversation say",),
    stage="store",
    status=201,
    human="holdfast.features.conversations.render:render_new_turns",
    examples=(
        Example({"turns": [{"role": "user", "content": "Is it on?"}, {"role": "assistant", "content": "Since noon."}]}),
        Example({"turns": [{"role": "robot", "content": "x"}]}, error="VALIDATION_FAILED"),
        Example({"turns": []}, error="VALIDATION_FAILED"),
        Example({"turns": [{"role": "user", "content": "Is it on?"}], "channel": "slack"}, prepared=True),
    ),
)
def conversation_say(ctx: Context, request: ConversationSay) -> ConversationSayResult:
    """Append turns to the active conversation, in one transaction.

    After two idle hours a new conversation starts. Each turn is a memory that recall can find.
    """
    result = conversations.append_turns(
        ctx,
        _scope(ctx, request.channel, request.principal, request.namespace),
        [
            conversations.Turn(turn.role, turn.content, parse_time(turn.at, "at"), turn.metadata)
            for turn in request.turns
        ],
    )
    return ConversationSayResult(
        conversation_id=result.conversation.id, began=result.began, turns=[_turn_view(turn) for turn in result.turns]
    )


class ConversationShow(Request, frozen=True):
    id: ConversationId
    after: AfterTurn = 0
    limit: Limit = 100


class ConversationDetail(Struct, frozen=True, kw_only=True):
    conversation: SummarizedConversation
    turns: list[TurnView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/conversations/{id}",
    cli=("conversation", "show"),
    human="holdfast.features.conversations.render:render_conversation",
    examples=(
        Example({"id": "no-such-conversation"}, error="NOT_FOUND"),
        Example({"id": "48e7f2a5"}, prepared=True),
        Example({"id": "48e7f2a5", "after": 1}, prepared=True),
    ),
)
def conversation_show(ctx: Context, request: ConversationShow) -> ConversationDetail:
    """Show a conversation with its turns and summary."""
    one, turns, summary = conversations.show_conversation(ctx, request.id, request.after, request.limit)
    return ConversationDetail(
        conversation=_with_summary(one, summary), turns=[_turn_view(turn) for turn in turns], count=len(turns)
    )


class ConversationList(Request, frozen=True):
    state: Annotated[State, Meta(description="Only conversations in this state.")] | None = None
    channel: Channel | None = None
    namespace: Namespace | None = None
    principal: Annotated[list[str], Meta(max_length=20, description="Only conversations of these people.")] = []
    limit: Limit = 50
    offset: Skip = 0


class Conversations(Struct, frozen=True, kw_only=True):
    conversations: list[SummarizedConversation]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/conversations",
    cli=("conversation", "list"),
    columns=("id!", "state", "turns", "last_at", "summary"),
    examples=(Example({}), Example({"state": "asleep"}, error="VALIDATION_FAILED")),
)
def conversation_list(ctx: Context, request: ConversationList) -> Conversations:
    """List conversations with their summaries, latest first."""
    which = ConversationFilter(tuple(request.principal), request.channel, request.namespace, request.state)
    found = [_with_summary(*one) for one in conversations.list_conversations(ctx, which, request.limit, request.offset)]
    return Conversations(conversations=found, count=len(found))


class ConversationClose(Request, frozen=True):
    id: Annotated[ConversationId, Meta(description="Id of the conversation [default: the active one].")] | None = None
    summary: (
        Annotated[str, Meta(min_length=1, max_length=65_536, description="Summary [default: generated].")] | None
    ) = None
    channel: Channel = ""
    principal: Principal | None = None
    namespace: Namespace | None = None
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/conversations/close",
    cli=("conversation", "close"),
    stage="store",
    asks=True,
    columns=("id", "state", "turns"),
    examples=(
        Example({"id": "no-such-conversation"}, error="NOT_FOUND"),
        Example({"channel": "nowhere"}, error="NOT_FOUND"),
        Example({"id": "48e7f2a5"}, prepared=True),
        Example({"summary": "Agreed on Tuesday.", "channel": "slack", "principal": "ann"}, prepared=True),
    ),
)
def conversation_close(ctx: Context, request: ConversationClose) -> SummarizedConversation:
    """Close a conversation with a given or generated summary."""
    scope = _scope(ctx, request.channel, request.principal, request.namespace)
    closed = conversations.close_conversation(ctx, conversations.resolve_id(ctx, request.id, scope), request.summary)
    one, _, summary = conversations.show_conversation(ctx, closed.id, closed.turns, 1)
    return _with_summary(one, summary)


class ConversationReap(Request, frozen=True):
    limit: Limit = 100
    prune_days: (
        Annotated[int, Meta(ge=0, le=36_500, description="Archive turns of conversations closed this many days ago.")]
        | None
    ) = None
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/conversations/reap",
    cli=("conversation", "close-idle"),
    aliases=("conversation reap",),
    stage="store",
    asks=True,
    repeats=True,
    admin=True,
    examples=(Example({}), Example({"prune_days": -1}, error="VALIDATION_FAILED")),
)
def conversation_reap(ctx: Context, request: ConversationReap, progress: Progress) -> ReapResult:
    """Close idle conversations with a summary; one process at a time.

    With prune_days, also archive old turns that a summary covers.
    """
    return conversations.close_idle(ctx, request.limit, request.prune_days)


class ConversationConsolidate(Request, frozen=True):
    min_hours: Annotated[float, Meta(ge=0, le=100_000, description="Minimum hours since the last run.")] = 24
    min_conversations: Annotated[
        int, Meta(ge=0, le=1_000_000, description="Minimum number of conversations started since then.")
    ] = 5
    prune_days: Annotated[
        int, Meta(ge=0, le=36_500, description="Archive turns and drop archived outcomes after this many days.")
    ] = 30
    keep_outcomes: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Outcomes to keep per person; older ones are archived.")
    ] = 100
    interaction_days: (
        Annotated[int, Meta(ge=0, le=36_500, description="Erase the text of interactions after this many days.")] | None
    ) = None
    force: Annotated[bool, Meta(description="Run regardless of time and number.")] = False
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/conversations/consolidate",
    cli=("conversation", "consolidate"),
    stage="store",
    asks=True,
    repeats=True,
    admin=True,
    human="holdfast.features.conversations.render:render_conversation_consolidation",
    examples=(
        Example({}),
        Example({"force": True, "prune_days": 90}),
        Example({"min_hours": -1}, error="VALIDATION_FAILED"),
    ),
)
def conversation_consolidate(
    ctx: Context, request: ConversationConsolidate, progress: Progress
) -> ConversationConsolidateResult:
    """Close, summarise and archive old conversations and outcomes when enough is new.

    One process at a time. Turns are archived once a summary covers them; outcomes are archived before they are deleted.
    """
    return consolidate.consolidate(
        ctx,
        min_hours=request.min_hours,
        min_conversations=request.min_conversations,
        prune_days=request.prune_days,
        keep_outcomes=request.keep_outcomes,
        interaction_days=request.interaction_days,
        force=request.force,
    )


@operation(
    Effect.READ,
    "GET /api/v1/principals/{name}/stats",
    topic="people",
    cli=("person", "stats"),
    aliases=("principal stats",),
    columns=("principal",),
    examples=(Example({"name": "ann"}), Example({"name": "x" * 129}, error="VALIDATION_FAILED")),
)
def principal_stats(ctx: Context, request: PrincipalShow) -> PrincipalStats:
    """Count the conversations, messages, observations and facts of a principal."""
    return conversations.count_principal_records(ctx, request.name)
