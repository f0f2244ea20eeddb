"""Create, list, replay and remove webhook subscriptions."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from holdfast.features.history import event
from holdfast.features.webhooks import store as subscription_store
from holdfast.features.webhooks.model import (
    MAX_SUBSCRIPTIONS,
    Delivery,
    Outcome,
    Subscription,
    SubscriptionStatus,
    new_secret,
    validate_secret,
)
from holdfast.features.webhooks.store import SUBSCRIPTIONS
from holdfast.kernel.context import Caller, Context, validate_agent_id
from holdfast.kernel.errors import Conflict, Invalid, NotFound
from holdfast.kernel.journal import journal
from holdfast.kernel.net.ssrf_guard import validate_url
from holdfast.kernel.storage.port import Session


@contextmanager
def writing(ctx: Context) -> Iterator[Session]:
    """Open a transaction without journal: subscriptions belong to this store only."""
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        yield session
    ctx.on_commit()


def subscribe(
    ctx: Context,
    url: str,
    events: Sequence[str] = (),
    *,
    namespace: str | None = None,
    agent: str | None = None,
    secret: str | None = None,
    after: int | None = None,
) -> Subscription:
    """Create a subscription with the next change or after one. Without a secret, one is generated."""
    validate_url(url, ctx.webhook_limits)
    if agent is not None:
        validate_agent_id(agent, "agent_filter")
    event_filter = event.build_event_filter(list(events), namespace, agent)
    secret = new_secret() if secret is None else validate_secret(secret)
    with writing(ctx) as session:
        if subscription_store.count_active(session, ctx.caller.agent) >= MAX_SUBSCRIPTIONS:
            raise Conflict(f"{ctx.caller.agent!r} already has {MAX_SUBSCRIPTIONS} subscriptions. Remove one first.")
        head, now = journal.get_head(session).seq, ctx.now()
        subscription = Subscription(
            id=str(uuid.uuid4()),
            agent=ctx.caller.agent,
            reach=ctx.caller.namespaces,
            key_id=ctx.caller.key,
            url=url,
            events=list(event_filter.events),
            namespace=event_filter.namespace,
            by_agent=event_filter.agent,
            secret=secret,
            place=head if after is None else min(after, head),
            ready_at=now,
            created_at=now,
            updated_at=now,
        )
        return SUBSCRIPTIONS.add(session, subscription)


def sees_all(caller: Caller) -> bool:
    """Return whether the caller may manage the subscriptions of all agents."""
    return caller.has_right("admin") and "*" in caller.namespaces


def list_subscriptions(ctx: Context, session: Session, limit: int) -> list[Subscription]:
    """List the caller's subscriptions; all of them for an admin of the whole store."""
    return subscription_store.list_subscriptions(session, None if sees_all(ctx.caller) else ctx.caller.agent, limit)


def list_all_statuses(session: Session) -> list[SubscriptionStatus]:
    """List the state of all subscriptions."""
    return subscription_store.list_statuses(session, None)


def list_statuses(ctx: Context, session: Session) -> list[SubscriptionStatus]:
    """List the state of the caller's subscriptions; of all for an admin of the whole store."""
    return subscription_store.list_statuses(session, None if sees_all(ctx.caller) else ctx.caller.agent)


def get_subscription(ctx: Context, session: Session, id: str) -> Subscription:
    found = SUBSCRIPTIONS.get(session, id)
    if found is None or not (found.agent == ctx.caller.agent or sees_all(ctx.caller)):
        raise NotFound(f"No subscription {id!r}, or it is not yours.", id=id)
    return found


def unsubscribe(ctx: Context, id: str) -> Subscription:
    """Remove a subscription; only requests already in flight are still delivered."""
    with writing(ctx) as session:
        found = get_subscription(ctx, session, id)
        SUBSCRIPTIONS.delete(session, found.id)
    return found


def list_deliveries(
    ctx: Context, session: Session, id: str | None, states: Sequence[Outcome], limit: int
) -> list[Delivery]:
    """List the latest deliveries of one subscription or of all the caller's."""
    ids = (
        [one.id for one in list_subscriptions(ctx, session, 1000)]
        if id is None
        else [get_subscription(ctx, session, id).id]
    )
    return subscription_store.list_deliveries(session, ids, states, limit)


class SubscriptionReplayResult(Struct, frozen=True, kw_only=True):
    id: str
    place: int
    """Everything after this change is sent or resent."""
    requeued: int
    """Number of requeued dead letters; they are sent first."""


def replay(
    ctx: Context, id: str, since: int | None, dead: Sequence[int], *, every_dead: bool
) -> SubscriptionReplayResult:
    """Resend everything after a change, or dead letters; reactivates an ended subscription."""
    if (since is not None) + bool(dead) + every_dead != 1:
        raise Invalid("Give exactly one of since, dead_letters and all_dead_letters.", fields=["since", "dead_letters"])
    with writing(ctx) as session:
        found, now = get_subscription(ctx, session, id), ctx.now()
        place = found.place
        if since is not None:
            place = min(since, journal.get_head(session).seq)
            session.do("delivery_withdraw", subscription=id, place=place)
            requeued = 0
        elif every_dead:
            requeued = len(session.rows("delivery_requeue_all", subscription=id))
        else:
            requeued = _requeue(session, id, dead)
        session.do("subscription_restart", id=id, place=place, now=now)
    return SubscriptionReplayResult(id=found.id, place=place, requeued=requeued)


def _requeue(session: Session, id: str, seqs: Sequence[int]) -> int:
    moved = {row[0] for row in session.rows("delivery_requeue", subscription=id, seqs=list(seqs))}
    if missing := [seq for seq in dict.fromkeys(seqs) if seq not in moved]:
        raise NotFound(f"This subscription has no dead letter for change {missing[0]}.", changes=missing)
    return len(moved)


def slowest_position(session: Session) -> int | None:
    """Return the change that every active subscription has reached; None if there are none."""
    row = session.row("subscription_slowest")
    return None if row is None or row[0] is None else int(row[0])
