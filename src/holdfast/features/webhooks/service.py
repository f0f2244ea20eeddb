"""Create, list, replay and remove webhook subscriptions."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.history import event
from holdfast.features.history.event import Wanted
from holdfast.features.webhooks import store as subscriptions
from holdfast.features.webhooks.model import MOST_SUBSCRIPTIONS, Delivery, Outcome, Standing, Subscription
from holdfast.features.webhooks.signature import admit_secret, new_secret
from holdfast.kernel.caller import Caller, admit_agent
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict, Invalid, NotFound
from holdfast.kernel.journal import journal
from holdfast.kernel.net.ssrf_guard import admit_url
from holdfast.kernel.storage.port import Session


class Asked(NamedTuple):
    """A subscription to create."""

    url: str
    events: Sequence[str] = ()
    namespace: str | None = None
    agent: str | None = None
    secret: str | None = None
    after: int | None = None
    """Start after this change; None: with the next one."""


@contextmanager
def writing(hold: Hold) -> Iterator[Session]:
    """Open a transaction without journal: subscriptions belong to this store only."""
    with hold.store.writing(hold.progress.commit) as session:
        yield session
    hold.kept()


def subscribe(hold: Hold, asked: Asked) -> tuple[Subscription, str | None]:
    """Create a subscription; return it with its secret if that was generated. The secret is not shown again."""
    admit_url(asked.url, hold.outbound)
    if asked.agent is not None:
        admit_agent(asked.agent, "agent_filter")
    wanted = event.admit(list(asked.events), asked.namespace, asked.agent)
    made = new_secret() if asked.secret is None else None
    secret = made or admit_secret(asked.secret or "")
    with writing(hold) as session:
        if subscriptions.count(session, hold.caller.agent) >= MOST_SUBSCRIPTIONS:
            raise Conflict(f"{hold.caller.agent!r} already has {MOST_SUBSCRIPTIONS} subscriptions. Remove one first.")
        head = journal.head_of(session).seq
        place = head if asked.after is None else min(asked.after, head)
        subscription = _new(hold, asked.url, wanted, secret, place)
        subscriptions.add(session, subscription)
    return subscription, made


def _new(hold: Hold, url: str, wanted: Wanted, secret: str, place: int) -> Subscription:
    now = hold.now()
    return Subscription(
        id=str(uuid.uuid4()),
        agent=hold.caller.agent,
        reach=hold.caller.namespaces,
        key_id=hold.caller.key,
        url=url,
        events=wanted.events,
        namespace=wanted.namespace,
        by_agent=wanted.agent,
        secret=secret,
        state="active",
        why=None,
        place=place,
        ready_at=now,
        owner=None,
        token=0,
        held_until=0,
        delivered=0,
        dead=0,
        last_error=None,
        last_at=None,
        created_at=now,
        updated_at=now,
    )


def sees_all(caller: Caller) -> bool:
    """Return whether the caller may manage the subscriptions of all agents."""
    return caller.may("admin") and "*" in caller.namespaces


def every(hold: Hold, session: Session, limit: int) -> list[Subscription]:
    """List the caller's subscriptions; all of them for an admin of the whole store."""
    return subscriptions.every(session, None if sees_all(hold.caller) else hold.caller.agent, limit)


def standings(hold: Hold, session: Session) -> list[Standing]:
    """List the state of the caller's subscriptions; of all for an admin of the whole store."""
    return subscriptions.standings(session, None if sees_all(hold.caller) else hold.caller.agent)


def named(hold: Hold, session: Session, id: str) -> Subscription:
    found = subscriptions.one(session, id)
    if found is None or not (found.agent == hold.caller.agent or sees_all(hold.caller)):
        raise NotFound(f"No subscription {id!r}, or it is not yours.", id=id)
    return found


def unsubscribe(hold: Hold, id: str) -> Subscription:
    """Remove a subscription; only requests already in flight are still delivered."""
    with writing(hold) as session:
        found = named(hold, session, id)
        subscriptions.remove(session, found.id)
    return found


def deliveries(hold: Hold, session: Session, id: str | None, states: Sequence[Outcome], limit: int) -> list[Delivery]:
    """List the latest deliveries of one subscription or of all the caller's."""
    ids = [one.id for one in every(hold, session, 1000)] if id is None else [named(hold, session, id).id]
    return subscriptions.deliveries(session, ids, states, limit)


class Again(NamedTuple):
    subscription: Subscription
    place: int
    requeued: int


def replay(hold: Hold, id: str, since: int | None, dead: Sequence[int], *, every_dead: bool) -> Again:
    """Resend everything after a change, or dead letters; reactivates an ended subscription."""
    if (since is not None) + bool(dead) + every_dead != 1:
        raise Invalid("Give exactly one of since, dead_letters and all_dead_letters.", fields=["since", "dead_letters"])
    with writing(hold) as session:
        found, now = named(hold, session, id), hold.now()
        place = found.place
        if since is not None:
            place = min(since, journal.head_of(session).seq)
            session.do("delivery_withdraw", subscription=id, place=place)
            requeued = 0
        elif every_dead:
            requeued = len(session.rows("delivery_all_again", subscription=id))
        else:
            requeued = _requeued(session, id, dead)
        session.do("subscription_again", id=id, place=place, now=now)
    return Again(replace(found, place=place, state="active", why=None, ready_at=now), place, requeued)


def _requeued(session: Session, id: str, seqs: Sequence[int]) -> int:
    moved = {row[0] for row in session.rows("delivery_again", subscription=id, seqs=list(seqs))}
    if missing := [seq for seq in dict.fromkeys(seqs) if seq not in moved]:
        raise NotFound(f"This subscription has no dead letter for change {missing[0]}.", changes=missing)
    return len(moved)
