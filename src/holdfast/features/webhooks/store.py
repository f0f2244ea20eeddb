"""Read and write subscriptions and deliveries."""

from collections.abc import Sequence

from holdfast.features.webhooks.model import MAX_KEPT_DELIVERIES, Delivery, Outcome, Subscription, SubscriptionStatus
from holdfast.kernel.storage.local_table import LocalTable
from holdfast.kernel.storage.port import Session

_STATUS = SubscriptionStatus.__struct_fields__
SUBSCRIPTIONS = LocalTable(Subscription, "subscription", plural="subscriptions")
DELIVERIES = LocalTable(
    Delivery, "delivery", ("subscription", "seq"), plural="deliveries", parent=(SUBSCRIPTIONS, "subscription")
)


def list_subscriptions(session: Session, agent: str | None, limit: int) -> list[Subscription]:
    """List subscriptions, oldest first; optionally of one agent."""
    parts = ("subscription.oldest",) if agent is None else ("subscription.of_agent", "subscription.oldest")
    return SUBSCRIPTIONS.select(session, parts, {"limit": limit, **({} if agent is None else {"agent": agent})})


def list_statuses(session: Session, agent: str | None) -> list[SubscriptionStatus]:
    """List the state of subscriptions, oldest first; optionally of one agent."""
    rows = session.rows("subscription_status", agent=agent)
    return [SubscriptionStatus(**dict(zip(_STATUS, row, strict=True))) for row in rows]


def count_active(session: Session, agent: str) -> int:
    """Count the active subscriptions of an agent."""
    return SUBSCRIPTIONS.count(session, ("subscription.of_agent", "subscription.active"), {"agent": agent})


def list_due(session: Session, owner: str, now: int) -> list[Subscription]:
    """List subscriptions that are due and that this process may claim."""
    return SUBSCRIPTIONS.select(session, ("subscription.active", "subscription.due"), {"owner": owner, "now": now})


def claim(session: Session, one: Subscription, owner: str, until: int, now: int) -> int | None:
    """Claim a subscription; return the token to record attempts with, or None if another process holds it."""
    row = session.row("subscription_claim", id=one.id, token=one.token, owner=owner, until=until, now=now)
    return None if row is None else int(row[0])


def next_waiting(session: Session, id: str) -> Delivery | None:
    """Return the first event waiting for a retry; it goes before all others."""
    return DELIVERIES.first(session, ("delivery.next",), {"subscription": id})


def count_dead(session: Session, id: str) -> int:
    """Count the dead letters of a subscription."""
    return DELIVERIES.count(session, ("delivery.dead",), {"subscription": id})


def save_delivery(session: Session, delivery: Delivery) -> None:
    """Save a delivery and prune the oldest delivered ones."""
    DELIVERIES.put(session, delivery)
    session.do("delivery_prune", subscription=delivery.subscription, number=delivery.number - MAX_KEPT_DELIVERIES)


def list_deliveries(session: Session, ids: Sequence[str], states: Sequence[Outcome], limit: int) -> list[Delivery]:
    """List deliveries, latest first."""
    params = {"subscriptions": list(ids), "states": list(states), "limit": limit}
    return DELIVERIES.select(session, ("delivery.latest",), params)
