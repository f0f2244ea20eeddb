"""Webhook subscriptions and their deliveries."""

from typing import Literal

from msgspec import Struct

from holdfast.features.history.event import EventFilter
from holdfast.kernel.timestamps import SECOND

State = Literal["active", "ended"]
Outcome = Literal["waiting", "delivered", "dead"]
MIN_PAUSE = 5 * SECOND
MAX_PAUSE = 3600 * SECOND
MAX_REFUSED_ATTEMPTS = 3
"""Attempts before an event that the receiver rejects permanently becomes a dead letter."""
MAX_DEAD_LETTERS = 10_000
"""Dead letters after which a subscription ends."""
MAX_KEPT_DELIVERIES = 1000
"""Delivered events kept on record per subscription."""
MAX_SUBSCRIPTIONS = 100
"""Active subscriptions per agent."""
GONE = "The receiver answered HTTP 410 (gone)."
REVOKED = "Its API key was revoked."
TOO_MANY = f"{MAX_DEAD_LETTERS:,} events could not be delivered."
RETRYABLE_STATUSES = frozenset({408, 409, 423, 425, 429})
"""Client error statuses that are worth retrying."""


class Subscription(Struct, frozen=True, kw_only=True):
    """A URL and the events posted to it. The secret is stored in clear text: it is needed to sign."""

    id: str
    agent: str
    reach: tuple[str, ...]
    """Namespaces of its owner when it was created."""
    key_id: str | None
    """API key that created it; revoking the key ends the subscription."""
    url: str
    events: tuple[str, ...]
    namespace: str | None
    by_agent: str | None
    secret: str
    state: State
    why: str | None
    """Why it ended."""
    place: int
    """Last change that was delivered, skipped or given up."""
    ready_at: int
    """Earliest time of the next attempt."""
    owner: str | None
    """Process that holds the lease."""
    token: int
    lease_until: int
    delivered: int
    dead: int
    last_error: str | None
    last_at: int | None
    created_at: int
    updated_at: int

    @property
    def event_filter(self) -> EventFilter:
        return EventFilter(self.events, self.namespace, self.by_agent)

    def __repr__(self) -> str:
        return f"Subscription({self.id!r})"


class Delivery(Struct, frozen=True, kw_only=True):
    """Delivery state of one event for one subscription."""

    subscription: str
    seq: int
    event: str
    record: str
    state: Outcome
    attempts: int
    status: int | None
    """Last HTTP status of the receiver."""
    error: str | None
    at: int
    number: int
    """Sequence number among the deliveries of the subscription."""


class SubscriptionStatus(Struct, frozen=True, kw_only=True):
    """State of a subscription with its numbers of pending and dead events."""

    id: str
    agent: str
    state: State
    why: str | None
    place: int
    waiting: int
    """Events waiting for a retry."""
    dead: int
    """Dead letters that were not requeued."""


def is_delivered(status: int) -> bool:
    return 200 <= status < 300


def is_permanent(status: int) -> bool:
    """Return whether a status rejects the event permanently, so that retries are pointless."""
    return 300 <= status < 500 and status not in RETRYABLE_STATUSES


def retry_delay(attempts: int, after: float, chance: float) -> int:
    """Return the delay before a retry: exponential with jitter, or longer if the receiver asks for it."""
    grown = min(MIN_PAUSE << min(attempts - 1, 20), MAX_PAUSE)
    return max(int(grown * (0.5 + chance / 2)), min(int(after * SECOND), MAX_PAUSE))


def message_id(subscription: str, seq: int) -> str:
    """Return the message id of an event; equal for every attempt, so that receivers can deduplicate."""
    return f"msg_{subscription.replace('-', '')}_{seq}"
