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
from msgspec import UNSET, Struct

from holdfast.features.history.event import TEST_EVENT
from holdfast.features.history.service import build_change, find_namespace, matches_filter, read_feed
from holdfast.features.webhooks import store as subscription_store
from holdfast.features.webhooks.model import (
    GONE,
    MAX_DEAD_LETTERS,
    MAX_REFUSED_ATTEMPTS,
    REVOKED,
    TOO_MANY,
    Delivery,
    Subscription,
    is_delivered,
    is_permanent,
    message_id,
    retry_delay,
    sign_headers,
)
from holdfast.features.webhooks.service import get_subscription, writing
from holdfast.kernel.context import Caller, Context
from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.kernel.journal import journal
from holdfast.kernel.net.failure import RequestFailure
from holdfast.kernel.net.webhook_client import WebhookClient, WebhookResponse
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import SECOND, format_timestamp
from holdfast.version import __version__

PAGE = 200
BATCH = 100
"""Attempts per subscription before others have their turn."""
SKIP_CHECKPOINT = 1000
"""Save the position of a subscription after skipping this many changes."""
SLOTS = 8
"""Subscriptions delivered in parallel, so that a hanging receiver does not block the others."""
POLL_SECONDS = 0.5
"""Interval between polls for writes of other processes."""
LEASE_MARGIN_SECONDS = 10.0
"""Lease time beyond the request timeout."""
GRACE_SECONDS = 3.0
log = logging.getLogger("holdfast")


class PendingEvent(NamedTuple):
    """The next event to deliver."""

    seq: int
    attempts: int
    event: str
    record: str
    body: Callable[[int], bytes] | None
    """Builds the body for a time; None if the change no longer exists or is no longer visible."""


class AttemptResult(NamedTuple):
    """The outcome of one attempt."""

    status: int | None = None
    error: str | None = None
    after: float = 0.0
    is_permanent: bool = False
    """Whether further retries are mostly pointless."""


class Dispatcher:
    """Delivers due events on its own threads until stopped. Several dispatchers can share a store."""

    def __init__(
        self, ctx: Context, *, owner: str = "", spare: float = LEASE_MARGIN_SECONDS, slots: int = SLOTS
    ) -> None:
        self._ctx = ctx
        self._owner = owner or f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        self._lease = int((ctx.webhook_limits.timeout + spare) * SECOND)
        self._slots = slots
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._busy: dict[str, threading.Thread] = {}
        self._sending: dict[str, WebhookClient] = {}
        self._checked: dict[str, tuple[int, int]] = {}
        self._skipped: dict[str, tuple[int, int]] = {}
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
            webhook.close()
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
        while found := sum(self._deliver_to(one) for one in self._list_due()):
            tries += found
        return tries

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                for one in self._list_due():
                    self._start_delivery(one)
            except HoldfastError as error:
                log.warning("Webhooks are waiting for the store: %s", error.message)
                self._stopping.wait(POLL_SECONDS)
            self._wake.wait(POLL_SECONDS)

    def _start_delivery(self, one: Subscription) -> None:
        with self._lock:
            if one.id in self._busy or len(self._busy) >= self._slots or self._stopping.is_set():
                return
            thread = threading.Thread(target=self._deliver_safely, args=(one,), name="holdfast-webhook", daemon=True)
            self._busy[one.id] = thread
            thread.start()

    def _deliver_safely(self, one: Subscription) -> None:
        try:
            if self._deliver_to(one):
                self._wake.set()
        except HoldfastError as error:
            log.warning("Could not deliver to the subscription %s: %s", one.id, error.message)
        except Exception as error:  # noqa: BLE001 - a bug with one subscription must not stop the others
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("The subscription %s failed with %s:\n%s", one.id, type(error).__name__, where)
        finally:
            with self._lock:
                self._busy.pop(one.id, None)

    def _list_due(self) -> list[Subscription]:
        """List due subscriptions that may have new events."""
        with self._ctx.reading() as session:
            found = subscription_store.list_due(session, self._owner, self._ctx.now())
            head = journal.get_head(session).seq if found else 0
        return [one for one in found if self._checked.get(one.id) != (head, one.token)]

    def _deliver_to(self, one: Subscription) -> int:
        """Deliver to one subscription until nothing is left, an attempt fails, or its batch is full."""
        tries, token = 0, None
        if self._is_revoked(one):
            return 0
        while tries < BATCH and not self._stopping.is_set() and (item := self._next_event(one)) is not None:
            token = self._claim(one) if token is None else token
            if token is None:
                return tries
            result = self._attempt(one, item)
            if result is None:
                break
            tries += 1
            after = self._record_attempt(one, token, item, result)
            if after is None or after.state != "active" or after.ready_at > self._ctx.now():
                break
            one = after
        if token is not None:
            with writing(self._ctx) as session:
                session.do("subscription_extend_lease", id=one.id, token=token, until=0)
        return tries

    def _next_event(self, one: Subscription) -> PendingEvent | None:
        """Return the event waiting for a retry, else the next change that matches the subscription."""
        with self._ctx.reading() as session:
            ctx = self._context_of(one)
            if (pending := subscription_store.next_waiting(session, one.id)) is not None:
                found = _find_entry(ctx, session, pending.seq)
                body = _build_body(ctx, session, one, found) if found else None
                return PendingEvent(pending.seq, pending.attempts, pending.event, pending.record, body)
            head, was = journal.get_head(session).seq, one.place
            before, after = self._skipped.get(one.id, (was, was))
            after = after if before == was else was
            while True:
                entries, reached = read_feed(ctx, session, after=after, limit=PAGE)
                for entry in entries:
                    if matches_filter(ctx, session, entry, one.event_filter):
                        change = build_change(entry)
                        return PendingEvent(
                            entry.seq, 0, change.event, entry.record, _build_body(ctx, session, one, entry)
                        )
                if reached <= after:
                    break
                after = reached
        self._checked[one.id], self._skipped[one.id] = (head, one.token), (was, after)
        if after - was >= SKIP_CHECKPOINT:
            with writing(self._ctx) as writer:
                writer.do("subscription_advance", id=one.id, was=was, place=after, token=one.token)
        return None

    def _context_of(self, one: Subscription) -> Context:
        """Return the context of the subscription's owner."""
        return self._ctx.for_caller(Caller(agent=one.agent, right="read", namespaces=one.reach, key=one.key_id))

    def _is_revoked(self, one: Subscription) -> bool:
        """End the subscription if its API key was revoked; return whether it was."""
        if one.key_id is None:
            return False
        with self._ctx.reading() as session:
            if any(row[0] == one.key_id and row[-1] is None for row in session.rows("key_list")):
                return False
        with writing(self._ctx) as session:
            session.do("subscription_end", id=one.id, why=REVOKED, now=self._ctx.now())
        log.warning("The subscription %s ended: %s", one.id, REVOKED)
        return True

    def _claim(self, one: Subscription) -> int | None:
        now = self._ctx.now()
        with writing(self._ctx) as session:
            return subscription_store.claim(session, one, self._owner, now + self._lease, now)

    def _attempt(self, one: Subscription, item: PendingEvent) -> AttemptResult | None:
        """Attempt one delivery, outside of any transaction; None if aborted by a stop."""
        if item.body is None:
            return AttemptResult(error="The change no longer exists or is no longer visible.", is_permanent=True)
        try:
            webhook = WebhookClient(one.url, self._ctx.webhook_limits)
        except Invalid as error:
            return AttemptResult(error=error.message, is_permanent=True)
        with self._lock:
            self._sending[one.id] = webhook
        try:
            result = send_event(webhook, one, item, self._ctx.now())
        finally:
            with self._lock:
                self._sending.pop(one.id, None)
        return None if self._stopping.is_set() and result.status is None else result

    def _record_attempt(
        self, one: Subscription, token: int, item: PendingEvent, result: AttemptResult
    ) -> Subscription | None:
        """Record an attempt and advance the position; None if the lease was lost."""
        now, attempts = self._ctx.now(), item.attempts + 1
        done = result.status is not None and is_delivered(result.status)
        gone = result.status == 410
        most = (
            min(MAX_REFUSED_ATTEMPTS, self._ctx.webhook_limits.attempts)
            if result.is_permanent
            else self._ctx.webhook_limits.attempts
        )
        dead = not (done or gone) and (attempts >= most or item.body is None)
        again = not (done or gone or dead)
        with writing(self._ctx) as session:
            full = dead and subscription_store.count_dead(session, one.id) + 1 >= MAX_DEAD_LETTERS
            row = session.row(
                "subscription_record_attempt",
                id=one.id,
                token=token,
                place=max(item.seq, one.place) if done or dead else one.place,
                state="ended" if gone or full else "active",
                why=GONE if gone else TOO_MANY if full else None,
                ready_at=now + retry_delay(attempts, result.after, random()) if again else now,  # noqa: S311 - no secret
                until=now + self._lease,
                delivered=int(done),
                dead=int(dead),
                last_error=result.error,
                now=now,
            )
            if row is None:
                return None
            delivery = Delivery(
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
            subscription_store.save_delivery(session, delivery)
            after = subscription_store.SUBSCRIPTIONS.get(session, one.id)
        _log_outcome(one, item, delivery, gone=gone)
        return after


def _log_outcome(one: Subscription, item: PendingEvent, delivery: Delivery, *, gone: bool) -> None:
    """Log an ended subscription or a dead letter, without URL and content."""
    if gone:
        log.warning("The subscription %s ended: %s", one.id, GONE)
    elif delivery.state == "dead":
        log.warning("The subscription %s gave up change %d: %s", one.id, item.seq, delivery.error)


def _find_entry(ctx: Context, session: Session, seq: int) -> journal.Entry | None:
    """Return a change if it still exists and is visible."""
    entries, _ = read_feed(ctx, session, after=seq - 1, limit=1)
    return entries[0] if entries and entries[0].seq == seq else None


def _build_body(ctx: Context, session: Session, one: Subscription, entry: journal.Entry) -> Callable[[int], bytes]:
    """Return a function that builds the body; equal for every attempt except for the time."""
    change = build_change(entry)
    namespace = find_namespace(ctx, session, entry)
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
    return lambda now: _encode({**about, "delivered_at": format_timestamp(now), "data": change})


def _encode(fields: dict[str, Any]) -> bytes:
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not UNSET})


def send_event(webhook: WebhookClient, one: Subscription, item: PendingEvent, now: int) -> AttemptResult:
    """Send a signed event once."""
    assert item.body is not None
    body = item.body(now)
    id = message_id(one.id, item.seq)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"holdfast/{__version__}",
        "X-AI-Memory-Correlation-Id": id,
        **sign_headers(one.secret, id, now // SECOND, body),
    }
    try:
        return _judge_answer(webhook, webhook.post(body, headers))
    except RequestFailure as failure:
        return AttemptResult(error=f"{webhook.host} {failure.reason}.", is_permanent=not failure.retryable)


def _judge_answer(webhook: WebhookClient, answer: WebhookResponse) -> AttemptResult:
    if is_delivered(answer.status):
        return AttemptResult(answer.status)
    what = f"refuses (HTTP {answer.status})"
    if 300 <= answer.status < 400:
        what = f"redirects (HTTP {answer.status}), which is not followed: subscribe to the target URL"
    return AttemptResult(answer.status, f"{webhook.host} {what}.", answer.retry_after, is_permanent(answer.status))


class SubscriptionTestResult(Struct, frozen=True, kw_only=True):
    """The receiver's answer to a test event."""

    id: str
    ok: bool
    status: int | None = None
    """HTTP status of the receiver."""
    error: str | None = None
    milliseconds: int


def send_test(ctx: Context, id: str) -> SubscriptionTestResult:
    """Send a test event once and return the outcome. Records nothing."""
    with ctx.reading() as session:
        one = get_subscription(ctx, session, id)
    about = {"type": TEST_EVENT, "event": TEST_EVENT, "subscription_id": one.id, "seq": 0, "agent_id": ctx.caller.agent}
    item = PendingEvent(
        0, 0, TEST_EVENT, "", lambda now: _encode({**about, "timestamp": format_timestamp(now), "data": {}})
    )
    started = monotonic()
    result = send_event(WebhookClient(one.url, ctx.webhook_limits), one, item, ctx.now())
    took = int((monotonic() - started) * 1000)
    return SubscriptionTestResult(
        id=id, ok=result.error is None, status=result.status, error=result.error, milliseconds=took
    )
