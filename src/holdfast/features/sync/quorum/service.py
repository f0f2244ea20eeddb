"""Quorum writes: a write succeeds once enough stores have acknowledged each of its changes."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from random import random
from time import monotonic
from typing import Any

from holdfast.features.sync.apply_changes import SyncResult, require_different_stores
from holdfast.features.sync.daemon import compute_pause
from holdfast.features.sync.exchange import LocalEndpoint, find_cursor, read_pages
from holdfast.features.sync.peers.client import PeerClient, parse_address
from holdfast.features.sync.quorum import pending_acks
from holdfast.features.sync.quorum.pending_acks import NO_ANSWER, REASONS, NackReason, PendingAck, Reason, count_pending
from holdfast.features.sync.read_changes import Page
from holdfast.features.sync.remote_endpoint import RemoteEndpoint, get_access, get_scope
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.errors import HoldfastError, InvalidSetting, OperationCancelled, QuorumNotMet
from holdfast.kernel.journal.journal import Position
from holdfast.kernel.records.change import ChangeId
from holdfast.kernel.storage.port import Session

CLEANUP_SECONDS = 1.0
END_SECONDS = 10.0
MAX_PENDING_LISTED = 100
PAGE = 200
REQUEST_SECONDS = 10.0
RETRY_SECONDS = 0.25
"""Pause before the immediate retry, while a writer may still wait."""
PAUSE_SECONDS = 1.0
log = logging.getLogger("holdfast")


def validate_settings(needed: int, peers: Sequence[str]) -> None:
    """Raise Misconfigured if the quorum can never be met, or if a peer would count twice."""
    for url in peers:
        try:
            parse_address(url)
        except HoldfastError as error:
            raise InvalidSetting(f"quorum_peers: {error.message}") from None
    if len({url.rstrip("/") for url in peers}) < len(peers):
        raise InvalidSetting("quorum_peers: a peer is listed twice. Remove one.")
    if needed > 1 + len(peers):
        raise InvalidSetting(
            f"quorum_writes: at most {1 + len(peers)}, the number of stores including this one (got {needed})."
        )
    if peers and not needed:
        raise InvalidSetting("quorum_writes: set how many stores must have a change, including this one.")


class Quorum:
    """Wait for acknowledgements of local changes from enough stores."""

    def __init__(self, ctx: Context, *, needed: int, peers: Sequence[str], timeout: float) -> None:
        validate_settings(needed, peers)
        self._ctx = ctx
        self._needed = needed
        self._timeout = timeout
        self._changed = threading.Condition()
        self._pending: dict[ChangeId, PendingAck] = {}
        self._acked_seqs: list[int] = []
        self._stopping = threading.Event()
        self._pushers = [PeerPusher(ctx, url, self, self._stopping) for url in peers]
        self._cleaner = threading.Thread(target=self._run_cleanup, name="holdfast-quorum-tidy", daemon=True)

    def start(self) -> None:
        """Start the pushers; resume with the changes pending from the previous process."""
        with self._ctx.reading() as session:
            self._pending = {one.name: PendingAck(one) for one in pending_acks.list_pending(session)}
        self._cleaner.start()
        for courier in self._pushers:
            courier.start()

    def stop(self) -> None:
        """Stop the pushers; undelivered changes stay pending in the store."""
        self._stopping.set()
        for courier in self._pushers:
            courier.stop()
        until = monotonic() + END_SECONDS
        for thread in (self._cleaner, *(courier.thread for courier in self._pushers)):
            thread.join(max(until - monotonic(), 0.0))

    def mark(self, session: Session, places: Sequence[Position], origin: str, now: int) -> None:
        """Mark changes as pending in the transaction that writes them, so they survive a crash."""
        pending_acks.mark_pending(session, places, origin, now)

    def wait(self, places: Sequence[Position], *, may_name_peers: bool) -> None:
        """Return once enough stores have all changes; raise QuorumNotMet when all peers answered or on timeout.

        `named`: the error lists the outcome per peer; only for callers who may see the peers.
        """
        with self._ctx.reading() as session:
            marked = pending_acks.list_pending(session, places[0].seq, places[-1].seq)
        deadline = monotonic() + self._timeout
        with self._changed:
            promises = [self._pending.setdefault(one.name, PendingAck(one)) for one in marked]
            self._collect_acked(promises)
            for courier in self._pushers:
                courier.wake()
            while not self._is_decided(promises) and (remaining := deadline - monotonic()) > 0:
                self._changed.wait(remaining)
            short = [one for one in promises if one.ack_count < self._needed]
            if short:
                raise self._quorum_error(short, named=may_name_peers)

    def _is_decided(self, promises: Iterable[PendingAck]) -> bool:
        """Whether each change has enough acknowledgements or an answer from every peer."""
        peers = len(self._pushers)
        return all(
            one.ack_count >= self._needed or len(one.acked_by.keys() | one.nacks.keys()) == peers for one in promises
        )

    def _quorum_error(self, short: Sequence[PendingAck], *, named: bool) -> QuorumNotMet:
        worst = min(short, key=lambda one: one.ack_count)
        missed = {
            one.name: worst.nacks.get(one.name, NO_ANSWER) for one in self._pushers if one.name not in worst.acked_by
        }
        peers = dict.fromkeys(worst.acked_by, "kept") | {peer: why.what for peer, why in missed.items()}
        more: dict[str, Any] = {"peers": peers} if named else {}
        return QuorumNotMet(
            f"Stored here, but only {worst.ack_count} of {self._needed} required stores have it so far. "
            "It stays pending and is delivered later: do not send it again.",
            got=worst.ack_count,
            needed=self._needed,
            reason=min((why.reason for why in missed.values()), key=REASONS.index, default="rejected"),
            **more,
            pending=[{"kind": one.change.kind, "id": one.change.record} for one in short[:MAX_PENDING_LISTED]],
        )

    def list_pending(self, peer: str) -> list[PendingAck]:
        """Return the changes that a peer has not acknowledged."""
        with self._changed:
            return [one for one in self._pending.values() if peer not in one.acked_by]

    def record_acks(self, peer: str, node: str, names: Collection[ChangeId]) -> None:
        """Record that a peer acknowledged changes as durable."""
        with self._changed:
            pending = [self._pending[name] for name in names if name in self._pending]
            for promise in pending:
                promise.acked_by[peer] = node
                promise.nacks.pop(peer, None)
            self._collect_acked(pending)
            self._changed.notify_all()

    def record_nacks(self, peer: str, names: Iterable[ChangeId], why: NackReason) -> None:
        with self._changed:
            for name in names:
                if name in self._pending:
                    self._pending[name].nacks[peer] = why
            self._changed.notify_all()

    def _collect_acked(self, promises: Iterable[PendingAck]) -> None:
        for promise in promises:
            if promise.ack_count >= self._needed and self._pending.pop(promise.change.name, None) is not None:
                self._acked_seqs.append(promise.change.seq)

    def _run_cleanup(self) -> None:
        """Remove marks in batches, and pick up pending changes that no writer waits for (their call failed)."""
        while not self._stopping.wait(CLEANUP_SECONDS):
            self._clean_up()
        self._clean_up()

    def _clean_up(self) -> None:
        with self._changed:
            seqs, known = list(self._acked_seqs), len(self._pending)
        try:
            if seqs:
                with self._ctx.store.transaction() as session:
                    pending_acks.clear_pending(session, seqs)
            with self._ctx.reading() as session:
                stored = pending_acks.list_pending(session) if count_pending(session)[0] > known else []
        except HoldfastError:
            return  # retried later; the marks stay
        with self._changed:
            self._acked_seqs = self._acked_seqs[len(seqs) :]
            unheard = [one for one in stored if one.name not in self._pending and one.seq not in self._acked_seqs]
            self._pending |= {one.name: PendingAck(one) for one in unheard}
        for courier in self._pushers if unheard else ():
            courier.wake()


class PeerPusher:
    """Push to one peer in its own thread. Failures are retried with backoff until everything is delivered."""

    def __init__(self, ctx: Context, url: str, quorum: Quorum, stopping: threading.Event) -> None:
        self._ctx = replace(ctx, quorum=None).for_caller(ctx.caller, Progress(stop=stopping))
        self._client = PeerClient(url, get_access(ctx, url), timeout=REQUEST_SECONDS)
        self._quorum = quorum
        self._stopping = stopping
        self._wake_event = threading.Event()
        self.name = self._client.name
        self.thread = threading.Thread(target=self._run, name="holdfast-quorum", daemon=True)

    def start(self) -> None:
        self._wake_event.set()
        self.thread.start()

    def wake(self) -> None:
        self._wake_event.set()

    def stop(self) -> None:
        self._wake_event.set()
        self._client.close()

    def _run(self) -> None:
        pause: float | None = None
        failures = 0
        while True:
            self._wake_event.wait(pause)
            self._wake_event.clear()
            if self._stopping.is_set():
                return
            why = self._push_pending()
            if why and not failures:
                log.warning("%s Retrying with backoff.", why)
            failures = failures + 1 if why or self._quorum.list_pending(self.name) else 0
            pause = compute_pause(failures, PAUSE_SECONDS, random()) if failures else None  # noqa: S311 - no secret

    def _push_pending(self) -> str | None:
        """Deliver all pending changes; on failure record the reason for all waiting writers and return it."""
        waiting = self._quorum.list_pending(self.name)
        try:
            self._deliver_with_retry(waiting)
        except OperationCancelled:
            return None
        except HoldfastError as error:
            why = error.message
        except Exception as error:  # noqa: BLE001 - a bug with one peer must not stop the others
            where = "".join(traceback.format_tb(error.__traceback__))
            why = f"Delivering to {self.name} failed with {type(error).__name__}:\n{where}"
        else:
            return None
        self._record_nacks([one.change.name for one in waiting], "unreachable", why.partition("\n")[0])
        return why

    def _deliver_with_retry(self, waiting: list[PendingAck]) -> None:
        """Deliver, with one retry: the peer may be starting, or applying another exchange at the same time."""
        try:
            self._deliver(waiting)
        except OperationCancelled:
            raise
        except HoldfastError:
            if self._stopping.wait(RETRY_SECONDS):
                raise
            self._deliver(waiting)

    def _deliver(self, waiting: list[PendingAck]) -> None:
        """Send the pending changes, even if sent before: only the peer's outcome for each counts as an answer."""
        there = RemoteEndpoint(self._ctx, self._client)
        here = LocalEndpoint(self._ctx, scope=get_scope(self._ctx, there, self.name))
        sender, peer = here.read_handshake(), there.read_handshake()
        require_different_stores(sender, peer)
        known = {origin: reached.n for origin, reached in peer.vector.items()}
        names = {one.change.name for one in waiting}
        answered = {name for name in names if name.n <= known.get(name.origin, 0)}
        self._quorum.record_acks(self.name, peer.node, answered)
        after = min([find_cursor(here, there), *(one.change.seq - 1 for one in waiting)])
        for page, sender in read_pages(here, after, known, PAGE):
            result = SyncResult()
            there.apply_changes(page._replace(upto=max(page.upto, there.get_cursor(sender))), sender, result)
            answered |= self._record_outcomes(peer.node, page, result)
        self._record_nacks(names - answered, "rejected", "may not read its namespace")

    def _record_outcomes(self, node: str, page: Page, result: SyncResult) -> set[ChangeId]:
        """Record the peer's outcome for each sent change; return the names of the sent changes."""
        sent = {ChangeId(change.origin, change.n) for change in page.changes}
        self._quorum.record_acks(self.name, node, sent - result.rejected_by_name.keys())
        for name in sent & result.rejected_by_name.keys():
            why = result.rejected_by_name[name]
            self._record_nacks([name], "rejected", f"rejected it: {why.detail} [{why.reason}]")
        return sent

    def _record_nacks(self, names: Iterable[ChangeId], reason: Reason, what: str) -> None:
        self._quorum.record_nacks(self.name, names, NackReason(reason, what))
