"""Webhook subscriptions, their deliveries and signatures."""

import hmac
import secrets
from base64 import b64decode, b64encode
from binascii import Error
from hashlib import sha256
from typing import Annotated, Literal

from msgspec import Struct

from holdfast.features.history.event import EventFilter
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.fields import PRIVATE, Agent, Named, Timestamp, computed
from holdfast.kernel.timestamps import SECOND, Time

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
SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of every secret, not a secret
MIN_SECRET, MAX_SECRET = 16, 256


class Subscription(Struct, frozen=True, kw_only=True):
    """A URL and the events posted to it. The secret is stored in clear text: it is needed to sign."""

    id: str
    agent: Agent
    reach: Annotated[tuple[str, ...], PRIVATE]
    """Namespaces of its owner when it was created."""
    key_id: Annotated[str | None, PRIVATE]
    """API key that created it; revoking the key ends the subscription."""
    url: str
    events: list[str]
    namespace: str | None = None
    by_agent: Annotated[str, Named("agent_filter")] | None = None
    secret: Annotated[str, PRIVATE]
    state: State = "active"
    why: str | None = None
    """Why it ended."""
    place: int
    """Last change that was delivered, skipped or given up."""
    ready_at: Annotated[int, PRIVATE]
    """Earliest time of the next attempt."""
    owner: Annotated[str | None, PRIVATE] = None
    """Process that holds the lease."""
    token: Annotated[int, PRIVATE] = 0
    lease_until: Annotated[int, PRIVATE] = 0
    delivered: int = 0
    dead: int = 0
    """Number of dead letters."""
    last_error: str | None = None
    last_at: Timestamp | None = None
    created_at: Timestamp
    updated_at: Annotated[int, PRIVATE]

    @computed
    def next_try_at(self) -> Time | None:
        return self.ready_at if self.last_error and self.state == "active" else None

    @property
    def event_filter(self) -> EventFilter:
        return EventFilter(tuple(self.events), self.namespace, self.by_agent)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"


class Delivery(Struct, frozen=True, kw_only=True):
    """Delivery state of one event for one subscription."""

    subscription: Annotated[str, Named("subscription_id")]
    seq: int
    event: str
    record: str
    state: Outcome
    attempts: int
    status: int | None = None
    """Last HTTP status of the receiver."""
    error: str | None = None
    at: Timestamp
    number: Annotated[int, PRIVATE]
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


# Signatures, in the formats of the ai-memory clients and of Standard Webhooks


def validate_secret(secret: str) -> str:
    """Validate a signing secret; errors never contain it."""
    if not MIN_SECRET <= len(secret) <= MAX_SECRET or not (secret.isascii() and secret.isprintable()):
        raise Invalid(
            f"secret: {MIN_SECRET} to {MAX_SECRET} printable ASCII characters. Omit it to generate one.",
            fields=["secret"],
        )
    if secret.startswith(SECRET_PREFIX):
        try:
            b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
        except Error:
            raise Invalid("secret: must be base64 after whsec_", fields=["secret"]) from None
    return secret


def new_secret() -> str:
    return SECRET_PREFIX + b64encode(secrets.token_bytes(32)).decode()


def sign_headers(secret: str, id: str, at: int, body: bytes) -> dict[str, str]:
    """Return both signatures of one attempt: over the body alone, and over id, time and body."""
    words = f"{id}.{at}.".encode() + body
    return {
        "X-AI-Memory-Signature": "sha256=" + hmac.new(secret.encode(), body, sha256).hexdigest(),
        "X-AI-Memory-Timestamp": str(at),
        "webhook-id": id,
        "webhook-timestamp": str(at),
        "webhook-signature": "v1," + b64encode(hmac.new(_signing_key(secret), words, sha256).digest()).decode(),
    }


def _signing_key(secret: str) -> bytes:
    """Return the key bytes: a `whsec_` secret is base64, any other is used unchanged."""
    return b64decode(secret.removeprefix(SECRET_PREFIX)) if secret.startswith(SECRET_PREFIX) else secret.encode()
