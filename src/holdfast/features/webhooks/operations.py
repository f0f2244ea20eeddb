"""Operations on webhook subscriptions."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict

from holdfast.features.history.operations.journal import AfterSequence, EventAgent, EventNames, EventNamespace
from holdfast.features.webhooks import deliver
from holdfast.features.webhooks import service as subscription_service
from holdfast.features.webhooks.model import Delivery, Outcome, Subscription
from holdfast.features.webhooks.service import SubscriptionReplayResult
from holdfast.kernel.context import Context
from holdfast.kernel.records.fields import PRIVATE, Named, computed
from holdfast.kernel.registry.fields import Actor, Limit
from holdfast.kernel.registry.operation import Effect, Example, Request, operation

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


class SubscribeResult(Subscription, frozen=True, kw_only=True):
    is_generated: Annotated[bool, PRIVATE]

    @computed
    def generated_secret(self) -> Annotated[str, Named("secret")] | None:
        """The generated secret, shown only once."""
        return self.secret if self.is_generated else None


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
    subscription = subscription_service.subscribe(
        ctx,
        request.url,
        request.events,
        namespace=request.namespace,
        agent=request.agent_filter,
        secret=request.secret,
        after=request.after,
    )
    return SubscribeResult(**asdict(subscription), is_generated=request.secret is None)


class SubscriptionList(Request, frozen=True):
    limit: Limit = 100


class SubscriptionPage(Struct, frozen=True, kw_only=True):
    subscriptions: list[Subscription]
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
    return SubscriptionPage(subscriptions=found, count=len(found))


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


class SubscriptionDeliveries(Request, frozen=True):
    id: (
        Annotated[
            str, Meta(min_length=1, max_length=64, description="Only of this subscription.", extra={"argument": True})
        ]
        | None
    ) = None
    state: Annotated[list[Outcome], Meta(max_length=3, description="Only these states; dead: given up.")] = []
    limit: Limit = 100


class DeliveryPage(Struct, frozen=True, kw_only=True):
    deliveries: list[Delivery]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/subscriptions/deliveries",
    cli=("webhook", "deliveries"),
    aliases=("subscription deliveries",),
    columns=("subscription_id", "seq", "event", "state", "attempts", "status", "error"),
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
    return DeliveryPage(deliveries=found, count=len(found))


class SubscriptionReplay(Request, frozen=True):
    id: SubscriptionId
    since: Annotated[AfterSequence, Meta(description="Resend everything after this change.")] | None = None
    dead_letters: Annotated[
        list[Annotated[int, Meta(ge=1, le=(1 << 53) - 1)]],
        Meta(max_length=1000, description="Resend the dead letters of these changes."),
    ] = []
    all_dead_letters: Annotated[bool, Meta(description="Resend all dead letters.")] = False
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/subscriptions/{id}/replay",
    cli=("webhook", "replay"),
    aliases=("subscription replay", "subscription-replay"),
    examples=(
        Example({"id": UNKNOWN_ID, "since": 0}, error="NOT_FOUND"),
        Example({"id": UNKNOWN_ID}, error="VALIDATION_FAILED"),
        Example({"id": "70de4b95", "since": 1}, prepared=True),
        Example({"id": "70de4b95", "all_dead_letters": True}, prepared=True),
    ),
)
def subscription_replay(ctx: Context, request: SubscriptionReplay) -> SubscriptionReplayResult:
    """Resend events after a change, or dead letters; reactivates an ended subscription."""
    return subscription_service.replay(
        ctx, request.id, request.since, request.dead_letters, every_dead=request.all_dead_letters
    )


class SubscriptionTest(Request, frozen=True):
    id: SubscriptionId
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/subscriptions/{id}/test",
    cli=("webhook", "test"),
    aliases=("subscription test",),
    examples=(Example({"id": UNKNOWN_ID}, error="NOT_FOUND"), Example({"id": "70de4b95"}, prepared=True)),
)
def subscription_test(ctx: Context, request: SubscriptionTest) -> deliver.SubscriptionTestResult:
    """Post a signed test event once and show the receiver's answer."""
    return deliver.send_test(ctx, request.id)
