"""Push pending changes to one peer and collect its acknowledgements."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Collection, Iterable
from dataclasses import replace
from random import random
from typing import Protocol

from holdfast.features.sync.apply_changes import SyncResult, require_different_stores
from holdfast.features.sync.daemon import compute_pause
from holdfast.features.sync.exchange import LocalEndpoint, find_cursor, read_pages
from holdfast.features.sync.peers.client import PeerClient
from holdfast.features.sync.quorum.pending_ack import NackReason, PendingAck, Reason
from holdfast.features.sync.read_changes import Page
from holdfast.features.sync.remote_endpoint import RemoteEndpoint, get_access, get_scope
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.errors import HoldfastError, OperationCancelled
from holdfast.kernel.records.change import ChangeId

PAGE = 200
REQUEST_SECONDS = 10.0
RETRY_SECONDS = 0.25
"""Pause before the immediate retry, while a writer may still wait."""
PAUSE_SECONDS = 1.0
log = logging.getLogger("holdfast")


class AckCollector(Protocol):
    """Receives the acknowledgements of a peer."""

    def list_pending(self, peer: str) -> list[PendingAck]:
        """Return the changes that a peer has not acknowledged."""

    def record_acks(self, peer: str, node: str, names: Collection[ChangeId]) -> None:
        """Record that a peer acknowledged changes as durable."""

    def record_nacks(self, peer: str, names: Iterable[ChangeId], why: NackReason) -> None:
        """Record why a peer does not have changes."""


class PeerPusher:
    """Push to one peer in its own thread. Failures are retried with backoff until everything is delivered."""

    def __init__(self, ctx: Context, url: str, quorum: AckCollector, stopping: threading.Event) -> None:
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
