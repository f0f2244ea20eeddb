"""Read and write subscriptions and deliveries."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from holdfast.features.webhooks.model import MAX_KEPT_DELIVERIES, Delivery, Outcome, Subscription, SubscriptionStatus
from holdfast.kernel.storage.port import Row, Session

_LISTS = ("reach", "events")
_FIELDS = Subscription.__struct_fields__
_DELIVERY = Delivery.__struct_fields__
_STANDING = SubscriptionStatus.__struct_fields__


def _subscription_of(row: Row) -> Subscription:
    named: dict[str, Any] = dict(zip(_FIELDS, row, strict=True))
    return Subscription(**named | {name: tuple(msgspec.json.decode(named[name])) for name in _LISTS})


def _delivery_of(row: Row) -> Delivery:
    return Delivery(**dict(zip(_DELIVERY, row, strict=True)))


def add(session: Session, subscription: Subscription) -> None:
    row = asdict(subscription)
    session.do("subscription_add", **row | {name: msgspec.json.encode(row[name]).decode() for name in _LISTS})


def find_subscription(session: Session, id: str) -> Subscription | None:
    row = session.row("subscription_get", id=id)
    return _subscription_of(row) if row else None


def list_subscriptions(session: Session, agent: str | None, limit: int) -> list[Subscription]:
    """List subscriptions, oldest first; optionally of one agent."""
    if agent is None:
        return [_subscription_of(row) for row in session.rows("subscription_list", limit=limit)]
    return [_subscription_of(row) for row in session.rows("subscription_of_agent", agent=agent, limit=limit)]


def list_statuses(session: Session, agent: str | None) -> list[SubscriptionStatus]:
    """List the state of subscriptions, oldest first; optionally of one agent."""
    rows = session.rows("subscription_status", agent=agent)
    return [SubscriptionStatus(**dict(zip(_STANDING, row, strict=True))) for row in rows]


def count_active(session: Session, agent: str) -> int:
    """Count the active subscriptions of an agent."""
    row = session.row("subscription_count", agent=agent)
    assert row is not None
    return int(row[0])


def list_due(session: Session, owner: str, now: int) -> list[Subscription]:
    """List subscriptions that are due and that this process may claim."""
    return [_subscription_of(row) for row in session.rows("subscription_due", owner=owner, now=now)]


def claim(session: Session, one: Subscription, owner: str, until: int, now: int) -> int | None:
    """Claim a subscription; return the token to record attempts with, or None if another process holds it."""
    row = session.row("subscription_claim", id=one.id, token=one.token, owner=owner, until=until, now=now)
    return None if row is None else int(row[0])


def remove(session: Session, id: str) -> None:
    session.do("delivery_remove", subscription=id)
    session.do("subscription_remove", id=id)


def next_waiting(session: Session, id: str) -> Delivery | None:
    """Return the first event waiting for a retry; it goes before all others."""
    row = session.row("delivery_next", subscription=id)
    return _delivery_of(row) if row else None


def save_delivery(session: Session, delivery: Delivery) -> None:
    """Save a delivery and prune the oldest delivered ones."""
    session.do("delivery_put", **asdict(delivery))
    session.do("delivery_prune", subscription=delivery.subscription, number=delivery.number - MAX_KEPT_DELIVERIES)


def list_deliveries(session: Session, ids: Sequence[str], states: Sequence[Outcome], limit: int) -> list[Delivery]:
    """List deliveries, latest first."""
    rows = session.rows("delivery_page", subscriptions=list(ids), states=list(states), limit=limit)
    return [_delivery_of(row) for row in rows]
