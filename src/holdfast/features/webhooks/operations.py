"""Operations on webhook subscriptions."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.history.operations import AfterSequence, EventAgent, EventNames, EventNamespace
from holdfast.features.webhooks import deliver
from holdfast.features.webhooks import service as subscription_service
from holdfast.features.webhooks.model import Delivery, Subscription
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Actor, Limit
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import TimeText, format_time, format_timestamp

SubscriptionId = Annotated[
    str, Meta(min_length=1, max_length=64, description="Id of the subscription.", extra={"argument": True})
]
UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"


class Subscribe(Request, frozen=True):
    url: Annotated[
        str,
        Meta(min_length=1, max_length=2048, description="URL to post events to: https://...", extra={"argument": True}),
    ]
    events: EventNames = []
    namespace: EventNamespace | None = None
    agent_filter: EventAgent | None = None
    secret: (
        Annotated[
            str, Meta(min_length=1, max_length=256, description="Signing secret [default: generated, shown once].")
        ]
        | None
    ) = None
    after: (
        Annotated[
            int, Meta(ge=0, le=(1 << 53) - 1, description="Start after this change [default: with the next one].")
        ]
        | None
    ) = None
    agent_id: Actor | None = None


class SubscriptionView(Struct, frozen=True, kw_only=True):
    id: str
    agent_id: str
    url: str
    events: list[str]
    namespace: str | UnsetType = UNSET
    agent_filter: str | UnsetType = UNSET
    state: Literal["active", "ended"]
    why: str | UnsetType = UNSET
    """Why it ended."""
    place: int
    """Last change that was delivered, skipped or given up."""
    delivered: int
    dead: int
    """Number of dead letters."""
    next_try_at: TimeText | UnsetType = UNSET
    last_error: str | UnsetType = UNSET
    last_at: TimeText | UnsetType = UNSET
    created_at: TimeText


class SubscribeResult(SubscriptionView, frozen=True, kw_only=True):
    secret: str | UnsetType = UNSET
    """The generated secret, shown only once."""


def _view_fields(one: "Subscription") -> dict[str, object]:
    return {
        "id": one.id,
        "agent_id": one.agent,
        "url": one.url,
        "events": list(one.events),
        "namespace": one.namespace or UNSET,
        "agent_filter": one.by_agent or UNSET,
        "state": one.state,
        "why": one.why or UNSET,
        "place": one.place,
        "delivered": one.delivered,
        "dead": one.dead,
        "next_try_at": format_timestamp(one.ready_at) if one.last_error and one.state == "active" else UNSET,
        "last_error": one.last_error or UNSET,
        "last_at": format_time(one.last_at),
        "created_at": format_timestamp(one.created_at),
    }


def subscription_view(one: "Subscription") -> SubscriptionView:
    return SubscriptionView(**_view_fields(one))  # type: ignore[arg-type]


@operation(
    Effect.WRITE,
    "POST /api/v1/subscriptions",
    cli=("webhook", "add"),
    aliases=("subscribe",),
    status=201,
    surfaces=("library", "cli", "http"),
    human="holdfast.features.webhooks.render:render_subscription",
    examples=(
        Example({"url": "https://hooks.example.com/memory", "events": ["memory_store"], "secret": "0123456789abcdef"}),
        Example({"url": "https://hooks.example.com/", "events": ["memory_stored"]}, error="VALIDATION_FAILED"),
        Example({"url": "http://127.1/hook"}, error="VALIDATION_FAILED"),
        Example({"url": "https://ann:secret@hooks.example.com/"}, error="VALIDATION_FAILED"),
        Example({"url": "https://hooks.example.com/memory", "events": ["memory_*"]}, prepared=True),
    ),
)
def subscribe(ctx: Context, request: Subscribe) -> SubscribeResult:
    """Send changes to a webhook (signed, retried).

    Changes are sent in order, and only those that you may see. Not available over MCP: a model must not decide where
    memories are sent.
    """
    parameters = subscription_service.SubscribeRequest(
        request.url, request.events, request.namespace, request.agent_filter, request.secret, request.after
    )
    subscription, secret = subscription_service.subscribe(ctx, parameters)
    return SubscribeResult(**_view_fields(subscription), secret=secret or UNSET)  # type: ignore[arg-type]


class SubscriptionList(Request, frozen=True):
    limit: Limit = 100


class SubscriptionPage(Struct, frozen=True, kw_only=True):
    subscriptions: list[SubscriptionView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/subscriptions",
    cli=("webhook", "list"),
    aliases=("subscription list", "list-subscriptions"),
    human="holdfast.features.webhooks.render:render_subscriptions",
    examples=(Example({}), Example({"limit": 0}, error="VALIDATION_FAILED")),
)
def subscription_list(ctx: Context, request: SubscriptionList) -> SubscriptionPage:
    """List your subscriptions, without secrets; admins of the store see all."""
    with ctx.reading() as session:
        found = subscription_service.list_subscriptions(ctx, session, request.limit)
    return SubscriptionPage(subscriptions=[subscription_view(one) for one in found], count=len(found))


class Unsubscribe(Request, frozen=True):
    id: SubscriptionId
    agent_id: Actor | None = None


class UnsubscribeResult(Struct, frozen=True, kw_only=True):
    id: str
    removed: bool


@operation(
    Effect.DESTROY,
    "DELETE /api/v1/subscriptions/{id}",
    cli=("webhook", "remove"),
    aliases=("unsubscribe",),
    examples=(Example({"id": UNKNOWN_ID}, error="NOT_FOUND"), Example({"id": "70de4b95"}, prepared=True)),
)
def unsubscribe(ctx: Context, request: Unsubscribe) -> UnsubscribeResult:
    """Delete a subscription with its secret and dead letters."""
    return UnsubscribeResult(id=subscription_service.unsubscribe(ctx, request.id).id, removed=True)


OutcomeName = Literal["waiting", "delivered", "dead"]


class SubscriptionDeliveries(Request, frozen=True):
    id: (
        Annotated[
            str, Meta(min_length=1, max_length=64, description="Only of this subscription.", extra={"argument": True})
        ]
        | None
    ) = None
    state: Annotated[list[OutcomeName], Meta(max_length=3, description="Only these states; dead: given up.")] = []
    limit: Limit = 100


class DeliveryView(Struct, frozen=True, kw_only=True):
    subscription_id: str
    seq: int
    event: str
    record: str
    state: OutcomeName
    attempts: int
    status: int | UnsetType = UNSET
    """Last HTTP status of the receiver."""
    error: str | UnsetType = UNSET
    at: TimeText


class DeliveryPage(Struct, frozen=True, kw_only=True):
    deliveries: list[DeliveryView]
    count: int


def delivery_view(one: "Delivery") -> DeliveryView:
    return DeliveryView(
        subscription_id=one.subscription,
        seq=one.seq,
        event=one.event,
        record=one.record,
        state=one.state,
        attempts=one.attempts,
        status=UNSET if one.status is None else one.status,
        error=one.error or UNSET,
        at=format_timestamp(one.at),
    )


@operation(
    Effect.READ,
    "GET /api/v1/subscriptions/deliveries",
    cli=("webhook", "deliveries"),
    aliases=("subscription deliveries",),
    human="holdfast.features.webhooks.render:render_deliveries",
    examples=(
        Example({"state": ["dead"]}),
        Example({"id": UNKNOWN_ID}, error="NOT_FOUND"),
        Example({"id": "70de4b95"}, prepared=True),
        Example({"state": ["dead"]}, prepared=True),
    ),
)
def subscription_deliveries(ctx: Context, request: SubscriptionDeliveries) -> DeliveryPage:
    """List deliveries, latest first: delivered, waiting for a retry, or dead."""
    states = request.state or ["waiting", "delivered", "dead"]
    with ctx.reading() as session:
        found = subscription_service.list_deliveries(ctx, session, request.id, states, request.limit)
    return DeliveryPage(deliveries=[delivery_view(one) for one in found], count=len(found))


class SubscriptionReplay(Request, frozen=True):
    id: SubscriptionId
    since: Annotated[AfterSequence, Meta(description="Resend everything after this change.")] | None = None
    dead_letters: Annotated[
        list[Annotated[int, Meta(ge=1, le=(1 << 53) - 1)]],
        Meta(max_length=1000, description="Resend the dead letters of these changes."),
    ] = []
    all_dead_letters: Annotated[bool, Meta(description="Resend all dead letters.")] = False
    agent_id: Actor | None = None


class SubscriptionReplayResult(Struct, frozen=True, kw_only=True):
    id: str
    place: int
    """Everything after this change is sent or resent."""
    requeued: int
    """Number of requeued dead letters; they are sent first."""


@operation(
    Effect.WRITE,
    "POST /api/v1/subscriptions/{id}/replay",
    cli=("webhook", "replay"),
    aliases=("subscription replay", "subscription-replay"),
    human="holdfast.features.webhooks.render:render_replay",
    examples=(
        Example({"id": UNKNOWN_ID, "since": 0}, error="NOT_FOUND"),
        Example({"id": UNKNOWN_ID}, error="VALIDATION_FAILED"),
        Example({"id": "70de4b95", "since": 1}, prepared=True),
        Example({"id": "70de4b95", "all_dead_letters": True}, prepared=True),
    ),
)
def subscription_replay(ctx: Context, request: SubscriptionReplay) -> SubscriptionReplayResult:
    """Resend events after a change, or dead letters; reactivates an ended subscription."""
    result = subscription_service.replay(
        ctx, request.id, request.since, request.dead_letters, every_dead=request.all_dead_letters
    )
    return SubscriptionReplayResult(id=result.subscription.id, place=result.place, requeued=result.requeued)


class SubscriptionTest(Request, frozen=True):
    id: SubscriptionId
    agent_id: Actor | None = None


class SubscriptionTestResult(Struct, frozen=True, kw_only=True):
    id: str
    ok: bool
    status: int | UnsetType = UNSET
    """HTTP status of the receiver."""
    error: str | UnsetType = UNSET
    milliseconds: int


@operation(
    Effect.WRITE,
    "POST /api/v1/subscriptions/{id}/test",
    cli=("webhook", "test"),
    aliases=("subscription test",),
    human="holdfast.features.webhooks.render:render_test_delivery",
    examples=(Example({"id": UNKNOWN_ID}, error="NOT_FOUND"), Example({"id": "70de4b95"}, prepared=True)),
)
def subscription_test(ctx: Context, request: SubscriptionTest) -> SubscriptionTestResult:
    """Post a signed test event once and show the receiver's answer."""
    tested = deliver.send_test(ctx, request.id)
    result = tested.result
    return SubscriptionTestResult(
        id=tested.subscription.id,
        ok=result.error is None,
        status=UNSET if result.status is None else result.status,
        error=result.error or UNSET,
        milliseconds=tested.milliseconds,
    )
