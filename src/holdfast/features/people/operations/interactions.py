"""Operations on the audit log of interactions."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict

from holdfast.features.people import interactions
from holdfast.features.people.interactions import InteractionFilter
from holdfast.features.people.model import Decision, Interaction
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.registry.fields import Actor, Limit, Namespace, Skip, Timestamp
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import parse_timestamp

Label = Annotated[str, Meta(max_length=256)]
Principal = Annotated[str, Meta(min_length=1, max_length=128, description="Person who asked [default: the agent].")]
Text = Annotated[str, Meta(min_length=1, max_length=65_536)]


class InteractionRecord(Request, frozen=True):
    status: Annotated[Decision, Meta(description="Decision: ok, error or denied.", extra={"argument": True})]
    principal: Principal | None = None
    name: Annotated[Label, Meta(description="Display name of the person.")] = ""
    channel: Annotated[Label, Meta(description="Channel, such as cli or slack.")] = ""
    action: Annotated[Label, Meta(description="Requested action, such as a tool.")] = ""
    reason: Annotated[str, Meta(max_length=2048, description="Reason of the denial or error.")] = ""
    input: Annotated[Text, Meta(description="Text of the request; stored as the namespace policy allows.")] | None = (
        None
    )
    output: Annotated[Text, Meta(description="Text of the answer; stored as the namespace policy allows.")] | None = (
        None
    )
    provider: Annotated[Label, Meta(description="Provider of the model.")] = ""
    model: Annotated[Label, Meta(description="Model that answered.")] = ""
    took_ms: Annotated[int, Meta(ge=0, le=10**12, description="Duration in milliseconds.")] | None = None
    conversation_id: Annotated[str, Meta(max_length=64, description="Id of the conversation.")] = ""
    at: Annotated[Timestamp, Meta(description="Time [default: now].")] | None = None
    unique_key: (
        Annotated[str, Meta(min_length=1, max_length=256, description="Idempotency key: repeats are recorded once.")]
        | None
    ) = None
    namespace: Namespace | None = None
    agent_id: Actor | None = None


class InteractionRecordResult(Interaction, frozen=True, kw_only=True):
    recorded: bool
    """False: it was already recorded under the same key."""


@operation(
    Effect.WRITE,
    "POST /api/v1/interactions",
    cli=("agents", "interaction", "record"),
    aliases=("interaction record",),
    status=201,
    columns=("id", "status"),
    examples=(
        Example({"status": "ok", "input": "Is it on?", "output": "Since noon.", "model": "model-one", "took_ms": 420}),
        Example({"status": "denied", "action": "shell", "reason": "It is on no list.", "principal": "ann"}),
        Example({"status": "maybe"}, error="VALIDATION_FAILED"),
        Example({"status": "denied", "reason": "x", "namespace": "people/ann"}, error="VALIDATION_FAILED"),
        Example({"status": "ok", "principal": "ann", "channel": "slack"}, prepared=True),
    ),
)
def interaction_record(ctx: Context, request: InteractionRecord) -> InteractionRecordResult:
    """Record a request to an agent and its decision in the journal.

    The policy of the namespace decides whether text is kept, hashed or omitted.
    """
    given = interactions.InteractionInput(
        status=request.status,
        principal=request.principal,
        namespace=request.namespace,
        name=request.name,
        channel=request.channel,
        action=request.action,
        reason=request.reason,
        provider=request.provider,
        model=request.model,
        took_ms=request.took_ms,
        conversation=request.conversation_id,
        at=None if request.at is None else parse_timestamp(request.at, "at"),
        input=request.input,
        output=request.output,
        unique_key=request.unique_key,
    )
    stored, fresh = interactions.record(ctx, given)
    return InteractionRecordResult(**asdict(stored), recorded=fresh)


class InteractionList(Request, frozen=True):
    status: Annotated[list[Decision], Meta(max_length=3, description="Only these decisions.")] = []
    principal: Annotated[list[str], Meta(max_length=20, description="Only these people.")] = []
    channel: Annotated[Label, Meta(description="Only this channel.")] | None = None
    namespace: Namespace | None = None
    since: Annotated[Timestamp, Meta(description="From this time on.")] | None = None
    until: Annotated[Timestamp, Meta(description="Before this time.")] | None = None
    limit: Limit = 50
    offset: Skip = 0


class Interactions(Struct, frozen=True, kw_only=True):
    interactions: list[Interaction]
    count: int
    totals: dict[str, int]
    """Total number by decision."""


@operation(
    Effect.READ,
    "GET /api/v1/interactions",
    cli=("agents", "interaction", "list"),
    aliases=("interaction list",),
    human="holdfast.features.people.render:render_interactions",
    examples=(Example({}), Example({"status": ["denied"]}), Example({"status": ["maybe"]}, error="VALIDATION_FAILED")),
)
def interaction_list(ctx: Context, request: InteractionList) -> Interactions:
    """List interactions, latest first.

    Agents see those they recorded and their own; admins of the store see all.
    """
    which = InteractionFilter(
        principals=tuple(request.principal),
        statuses=tuple(request.status),
        channel=request.channel,
        namespace=request.namespace,
        since=None if request.since is None else parse_timestamp(request.since, "since"),
        until=None if request.until is None else parse_timestamp(request.until, "until"),
    )
    found, totals = interactions.list_interactions(ctx, which, request.limit, request.offset)
    return Interactions(interactions=found, count=len(found), totals=totals)


class InteractionShow(Request, frozen=True):
    id: Annotated[
        str, Meta(min_length=1, max_length=128, description="Id of the interaction.", extra={"argument": True})
    ]


@operation(
    Effect.READ,
    "GET /api/v1/interactions/{id}",
    cli=("agents", "interaction", "show"),
    aliases=("interaction show",),
    columns=("id", "status"),
    examples=(Example({"id": "no-such-interaction"}, error="NOT_FOUND"), Example({"id": "1a95d3c7"}, prepared=True)),
)
def interaction_show(ctx: Context, request: InteractionShow) -> Interaction:
    """Show one interaction in full."""
    return interactions.get_interaction(ctx, request.id)


class InteractionErase(Request, frozen=True):
    older_than_days: Annotated[int, Meta(ge=0, le=36_500, description="Minimum age in days.")]
    agent_id: Actor | None = None


class InteractionEraseResult(Struct, frozen=True, kw_only=True):
    erased: int


@operation(
    Effect.DESTROY,
    "POST /api/v1/interactions/erase",
    cli=("agents", "interaction", "erase"),
    aliases=("interaction erase",),
    admin=True,
    irreversible=True,
    examples=(
        Example({"older_than_days": 365}),
        Example({"older_than_days": -1}, error="VALIDATION_FAILED"),
        Example({}, error="VALIDATION_FAILED"),
        Example({"older_than_days": 365}, prepared=True),
    ),
)
def interaction_erase(ctx: Context, request: InteractionErase, progress: Progress) -> InteractionEraseResult:
    """Erase text and person of old interactions; decisions remain."""
    return InteractionEraseResult(erased=interactions.erase_older(ctx, request.older_than_days))
