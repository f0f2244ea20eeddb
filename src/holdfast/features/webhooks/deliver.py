"""Deliver events at least once, in journal order, by one process at a time per subscription."""

from __future__ import annotations

import logging
import os
import socket
import threading
import traceback
from collections.abc import Callable
from random import random
from time import monotonic
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from holdfast.features.history.event import TEST
from holdfast.features.history.list_changes import change_of, is_wanted, namespace_of
from holdfast.features.history.service import feed
from holdfast.features.webhooks import signature as webhook_signature
from holdfast.features.webhooks import store as subscriptions
from holdfast.features.webhooks.model import (
    GONE,
    MOST_DEAD,
    REFUSED_ATTEMPTS,
    REVOKED,
    TOO_MANY,
    Delivery,
    Subscription,
    is_delivered,
    is_final,
    message_id,
    pause,
)
from holdfast.features.webhooks.service import named, writing
from holdfast.kernel.caller import Caller
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.kernel.journal import journal
from holdfast.kernel.net.failure import Failure
from holdfast.kernel.net.webhook_client import Answer, Webhook
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import SECOND, to_text
from holdfast.version import __version__

PAGE = 200
BATCH = 100
"""Attempts per subscription before others have their turn."""
PASSED = 1000
"""Save the position of a subscription after skipping this many changes."""
SLOTS = 8
"""Subscriptions delivered in parallel, so that a hanging receiver does not block the others."""
LOOK_SECONDS = 0.5
"""Interval between polls for writes of other processes."""
SPARE_SECONDS = 10.0
"""Lease time beyond the request timeout."""
GRACE_SECONDS = 3.0
log = logging.getLogger("holdfast")


class Item(NamedTuple):
    """The next event to deliver."""

    seq: int
    attempts: int
    event: str
    record: str
    body: Callable[[int], bytes] | None
    """Builds the body for a time; None if the change no longer exists or is no longer visible."""


class Result(NamedTuple):
    """The outcome of one attempt."""

    status: int | None = None
    error: str | None = None
    after: float = 0.0
    final: bool = False
    """Whether further retries are mostly pointless."""


class Dispatcher:
    """Delivers due events on its own threads until stopped. Several dispatchers can share a store."""

    def __init__(self, hold: Hold, *, owner: str = "", spare: float = SPARE_SECONDS, slots: int = SLOTS) -> None:
        self._hold = hold
        self._owner = owner or f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        self._lease = int((hold.outbound.timeout + spare) * SECOND)
        self._slots = slots
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._busy: dict[str, threading.Thread] = {}
        self._sending: dict[str, Webhook] = {}
        self._looked: dict[str, tuple[int, int]] = {}
        self._passed: dict[str, tuple[int, int]] = {}
        self._thread = threading.Thread(target=self._run, name="holdfast-webhooks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Check for due events now; called after a commit in this process."""
        self._wake.set()

    def stop(self) -> None:
        """Stop; wait a grace period for requests in flight, then abort them. Aborted events are delivered later."""
        self._stopping.set()
        self._wake.set()
        self._join(GRACE_SECONDS)
        with self._lock:
            sending = list(self._sending.values())
        for webhook in sending:
            webhook.end()
        self._join(GRACE_SECONDS)

    def _join(self, seconds: float) -> None:
        until = monotonic() + seconds
        with self._lock:
            working = list(self._busy.values())
        for thread in (*working, *([self._thread] if self._thread.ident else [])):
            thread.join(max(until - monotonic(), 0.0))

    def deliver(self) -> int:
        """Deliver everything that is due, in this thread; return the number of attempts."""
        tries = 0
        while found := sum(self._work(one) for one in self._due()):
            tries += found
        return tries

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                for one in self._due():
                    self._begin(one)
            except HoldfastError as error:
                log.warning("Webhooks are waiting for the store: %s", error.message)
                self._stopping.wait(LOOK_SECONDS)
            self._wake.wait(LOOK_SECONDS)

    def _begin(self, one: Subscription) -> None:
        with self._lock:
            if one.id in self._busy or len(self._busy) >= self._slots or self._stopping.is_set():
                return
            thread = threading.Thread(target=self._worked, args=(one,), name="holdfast-webhook", daemon=True)
            self._busy[one.id] = thread
            thread.start()

    def _worked(self, one: Subscription) -> None:
        try:
            if self._work(one):
                self._wake.set()
        except HoldfastError as error:
            log.warning("Could not deliver to the subscription %s: %s", one.id, error.message)
        except Exception as error:  # noqa: BLE001 - a bug with one subscription must not stop the others
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("The subscription %s failed with %s:\n%s", one.id, type(error).__name__, where)
        finally:
            with self._lock:
                self._busy.pop(one.id, None)

    def _due(self) -> list[Subscription]:
        """List due subscriptions that may have new events."""
        with self._hold.reading() as session:
            found = subscriptions.due(session, self._owner, self._hold.now())
            head = journal.head_of(session).seq if found else 0
        return [one for one in found if self._looked.get(one.id) != (head, one.token)]

    def _work(self, one: Subscription) -> int:
        """Deliver to one subscription until nothing is left, an attempt fails, or its batch is full."""
        tries, token = 0, None
        if self._is_revoked(one):
            return 0
        while tries < BATCH and not self._stopping.is_set() and (item := self._next(one)) is not None:
            token = self._held(one) if token is None else token
            if token is None:
                return tries
            result = self._tried(one, item)
            if result is None:
                break
            tries += 1
            after = self._settled(one, token, item, result)
            if after is None or after.state != "active" or after.ready_at > self._hold.now():
                break
            one = after
        if token is not None:
            with writing(self._hold) as session:
                session.do("subscription_hold", id=one.id, token=token, until=0)
        return tries

    def _next(self, one: Subscription) -> Item | None:
        """Return the event waiting for a retry, else the next change that matches the subscription."""
        with self._hold.reading() as session:
            seen = self._seen_by(one)
            if (late := subscriptions.waiting(session, one.id)) is not None:
                found = _entry(seen, session, late.seq)
                body = _body(seen, session, one, found) if found else None
                return Item(late.seq, late.attempts, late.event, late.record, body)
            head, was = journal.head_of(session).seq, one.place
            before, after = self._passed.get(one.id, (was, was))
            after = after if before == was else was
            while True:
                entries, reached = feed(seen, session, after=after, limit=PAGE)
                for entry in entries:
                    if is_wanted(seen, session, entry, one.wanted):
                        change = change_of(entry)
                        return Item(entry.seq, 0, change.event, entry.record, _body(seen, session, one, entry))
                if reached <= after:
                    break
                after = reached
        self._looked[one.id], self._passed[one.id] = (head, one.token), (was, after)
        if after - was >= PASSED:
            with writing(self._hold) as writer:
                writer.do("subscription_pass", id=one.id, was=was, place=after, token=one.token)
        return None

    def _seen_by(self, one: Subscription) -> Hold:
        """Return the context of the subscription's owner."""
        return self._hold.seen_by(Caller(agent=one.agent, right="read", namespaces=one.reach, key=one.key_id))

    def _is_revoked(self, one: Subscription) -> bool:
        """End the subscription if its API key was revoked; return whether it was."""
        if one.key_id is None:
            return False
        with self._hold.reading() as session:
            if any(row[0] == one.key_id and row[-1] is None for row in session.rows("key_list")):
                return False
        with writing(self._hold) as session:
            session.do("subscription_end", id=one.id, why=REVOKED, now=self._hold.now())
        log.warning("The subscription %s ended: %s", one.id, REVOKED)
        return True

    def _held(self, one: Subscription) -> int | None:
        now = self._hold.now()
        with writing(self._hold) as session:
            return subscriptions.claim(session, one, self._owner, now + self._lease, now)

    def _tried(self, one: Subscription, item: Item) -> Result | None:
        """Attempt one delivery, outside of any transaction; None if aborted by a stop."""
        if item.body is None:
            return Result(error="The change no longer exists or is no longer visible.", final=True)
        try:
            webhook = Webhook(one.url, self._hold.outbound)
        except Invalid as error:
            return Result(error=error.message, final=True)
        with self._lock:
            self._sending[one.id] = webhook
        try:
            result = sent(webhook, one, item, self._hold.now())
        finally:
            with self._lock:
                self._sending.pop(one.id, None)
        return None if self._stopping.is_set() and result.status is None else result

    def _settled(self, one: Subscription, token: int, item: Item, result: Result) -> Subscription | None:
        """Record an attempt and advance the position; None if the lease was lost."""
        now, attempts = self._hold.now(), item.attempts + 1
        done = result.status is not None and is_delivered(result.status)
        gone = result.status == 410
        most = min(REFUSED_ATTEMPTS, self._hold.outbound.attempts) if result.final else self._hold.outbound.attempts
        dead = not (done or gone) and (attempts >= most or item.body is None)
        again = not (done or gone or dead)
        with writing(self._hold) as session:
            full = dead and _dead(session, one.id) + 1 >= MOST_DEAD
            row = session.row(
                "subscription_settle",
                id=one.id,
                token=token,
                place=max(item.seq, one.place) if done or dead else one.place,
                state="ended" if gone or full else "active",
                why=GONE if gone else TOO_MANY if full else None,
                ready_at=now + pause(attempts, result.after, random()) if again else now,  # noqa: S311 - no secret
                until=now + self._lease,
                delivered=int(done),
                dead=int(dead),
                last_error=result.error,
                now=now,
            )
            if row is None:
                return None
            kept = Delivery(
                subscription=one.id,
                seq=item.seq,
                event=item.event,
                record=item.record,
                state="delivered" if done else "dead" if dead else "waiting",
                attempts=attempts,
                status=result.status,
                error=result.error,
                at=now,
                number=row[0],
            )
            subscriptions.put(session, kept)
            after = subscriptions.one(session, one.id)
        _tell(one, item, kept, gone=gone)
        return after


def _tell(one: Subscription, item: Item, kept: Delivery, *, gone: bool) -> None:
    """Log an ended subscription or a dead letter, without URL and content."""
    if gone:
        log.warning("The subscription %s ended: %s", one.id, GONE)
    elif kept.state == "dead":
        log.warning("The subscription %s gave up change %d: %s", one.id, item.seq, kept.error)


def _dead(session: Session, id: str) -> int:
    row = session.row("delivery_dead", subscription=id)
    assert row is not None
    return int(row[0])


def _entry(seen: Hold, session: Session, seq: int) -> journal.Entry | None:
    """Return a change if it still exists and is visible."""
    entries, _ = feed(seen, session, after=seq - 1, limit=1)
    return entries[0] if entries and entries[0].seq == seq else None


def _body(seen: Hold, session: Session, one: Subscription, entry: journal.Entry) -> Callable[[int], bytes]:
    """Return a function that builds the body; equal for every attempt except for the time."""
    change = change_of(entry)
    namespace = namespace_of(seen, session, entry)
    about: dict[str, Any] = {
        "type": change.event,
        "event": change.event,
        "timestamp": change.at,
        "subscription_id": one.id,
        "correlation_id": message_id(one.id, entry.seq),
        "seq": entry.seq,
        "agent_id": entry.actor,
        "memory_id": entry.about or UNSET,
        "namespace": namespace or UNSET,
    }
    return lambda now: _written({**about, "delivered_at": to_text(now), "data": change})


def _written(said: dict[str, Any]) -> bytes:
    return msgspec.json.encode({name: value for name, value in said.items() if value is not UNSET})


def sent(webhook: Webhook, one: Subscription, item: Item, now: int) -> Result:
    """Send a signed event once."""
    assert item.body is not None
    body = item.body(now)
    id = message_id(one.id, item.seq)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"holdfast/{__version__}",
        "X-AI-Memory-Correlation-Id": id,
        **webhook_signature.headers(one.secret, id, now // SECOND, body),
    }
    try:
        return _judged(webhook, webhook.post(body, headers))
    except Failure as failure:
        return Result(error=f"{webhook.host} {failure.what}.", final=not failure.retryable)


def _judged(webhook: Webhook, answer: Answer) -> Result:
    if is_delivered(answer.status):
        return Result(answer.status)
    what = f"refuses (HTTP {answer.status})"
    if 300 <= answer.status < 400:
        what = f"redirects (HTTP {answer.status}), which is not followed: subscribe to the target URL"
    return Result(answer.status, f"{webhook.host} {what}.", answer.after, is_final(answer.status))


class Tested(NamedTuple):
    subscription: Subscription
    result: Result
    milliseconds: int


def test(hold: Hold, id: str) -> Tested:
    """Send a test event once and return the outcome. Records nothing."""
    with hold.reading() as session:
        one = named(hold, session, id)
    about = {"type": TEST, "event": TEST, "subscription_id": one.id, "seq": 0, "agent_id": hold.caller.agent}
    item = Item(0, 0, TEST, "", lambda now: _written({**about, "timestamp": to_text(now), "data": {}}))
    begun = monotonic()
    result = sent(Webhook(one.url, hold.outbound), one, item, hold.now())
    return Tested(one, result, int((monotonic() - begun) * 1000))
