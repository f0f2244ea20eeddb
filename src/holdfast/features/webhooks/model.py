"""Subscriptions: who hears of what at which address, and what becomes of each delivery."""

from typing import Literal

from msgspec import Struct

from holdfast.features.history.event import Wanted
from holdfast.kernel.timestamps import SECOND

State = Literal["active", "ended"]
Outcome = Literal["waiting", "delivered", "dead"]
FIRST_PAUSE = 5 * SECOND
LONGEST_PAUSE = 3600 * SECOND
REFUSED_ATTEMPTS = 3
"""After which an event is given up that a receiver refuses for what it is."""
MOST_DEAD = 10_000
"""Events that could not be delivered, after which a subscription ends."""
MOST_KEPT = 1000
"""Deliveries of a subscription that stay on record."""
MOST_SUBSCRIPTIONS = 100
"""Of one agent."""
GONE = "The receiver said that it is gone (HTTP 410)."
REVOKED = "The key under which it was made was revoked."
TOO_MANY = f"{MOST_DEAD:,} events could not be delivered."
PATIENT = frozenset({408, 409, 423, 425, 429})
"""Refusals that are over after a while."""


class Subscription(Struct, frozen=True, kw_only=True):
    """One address, and what is told to it. The secret is kept as it is: without it nothing could be signed."""

    id: str
    agent: str
    reach: tuple[str, ...]
    """The namespaces of who made it, then."""
    key_id: str | None
    """The key under which it was made; nothing is delivered once that is revoked."""
    url: str
    events: tuple[str, ...]
    namespace: str | None
    by_agent: str | None
    secret: str
    state: State
    why: str | None
    """Why it ended."""
    place: int
    """The change up to which everything is settled."""
    ready_at: int
    """Before this it is left alone."""
    owner: str | None
    """Who delivers."""
    token: int
    held_until: int
    delivered: int
    dead: int
    last_error: str | None
    last_at: int | None
    created_at: int
    updated_at: int

    @property
    def wanted(self) -> Wanted:
        return Wanted(self.events, self.namespace, self.by_agent)

    def __repr__(self) -> str:
        return f"Subscription({self.id!r})"


class Delivery(Struct, frozen=True, kw_only=True):
    """What became of one event for one subscription."""

    subscription: str
    seq: int
    event: str
    record: str
    state: Outcome
    attempts: int
    status: int | None
    """What the receiver answered last."""
    error: str | None
    at: int
    number: int
    """Which one of the subscription it is, by the time it was settled."""


class Standing(Struct, frozen=True, kw_only=True):
    """How it stands with a subscription."""

    id: str
    agent: str
    state: State
    why: str | None
    place: int
    waiting: int
    """Events that wait for another try."""
    dead: int
    """Events that were given up, and not sent again since."""


def is_delivered(status: int) -> bool:
    return 200 <= status < 300


def is_final(status: int) -> bool:
    """Whether a receiver refuses an event for what it is, so that asking again and again is no use."""
    return 300 <= status < 500 and status not in PATIENT


def pause(attempts: int, after: float, chance: float) -> int:
    """How long a receiver is left alone: twice as long with each try, spread at random, or as long as it asks for."""
    grown = min(FIRST_PAUSE << min(attempts - 1, 20), LONGEST_PAUSE)
    return max(int(grown * (0.5 + chance / 2)), min(int(after * SECOND), LONGEST_PAUSE))


def message_id(subscription: str, seq: int) -> str:
    """The same for every try of one event, so that who hears of it twice can tell."""
    return f"msg_{subscription.replace('-', '')}_{seq}"
