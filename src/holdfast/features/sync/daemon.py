"""Sync daemon: keep a store in sync with its peers, one thread per peer, immediately after local changes."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Sequence
from random import random
from time import monotonic

from holdfast.features.sync.exchange import sync_with_server
from holdfast.features.sync.peers.client import PeerClient, parse_address
from holdfast.features.sync.remote_endpoint import get_access
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.errors import HoldfastError, Invalid, OperationCancelled
from holdfast.kernel.journal import journal
from holdfast.kernel.net.outbound import PeerCredentials

MAX_PAUSE = 20.0
"""Maximum seconds between attempts at a failing peer: after an outage all are in sync within half a minute."""
WATCH_SECONDS = 0.25
MIN_CYCLE_SECONDS = 0.5
"""Minimum time from the start of one exchange to the next, to send changes in batches."""
GRACE_SECONDS = 1.0
"""Wait for a running request on stop."""
END_SECONDS = 10.0
log = logging.getLogger("holdfast")


def validate_settings(peers: Sequence[str], access: PeerCredentials) -> None:
    """Raise Invalid if no peers are given, an address is invalid, or neither side would authenticate the other."""
    if not peers:
        raise Invalid(
            "--peers needs at least one address: --peers https://desk.example:9077,https://cloud.example",
            fields=["peers"],
        )
    if access.insecure and not (access.client_cert and access.client_key):
        raise Invalid(
            "--insecure-skip-server-verify needs --client-cert and --client-key: otherwise neither side authenticates "
            "the other.",
            fields=["insecure_skip_server_verify"],
        )
    if (access.client_cert is None) != (access.client_key is None):
        raise Invalid("Pass --client-cert and --client-key together.", fields=["client_cert"])
    for url in peers:
        parse_address(url)


def compute_pause(failures: int, interval: float, chance: float) -> float:
    """Return the pause before the next attempt: exponential backoff with jitter."""
    longest: float = min(interval * 2 ** min(failures, 20), max(MAX_PAUSE, interval))
    return longest * (0.5 + chance / 2)


class SyncDaemon:
    """Exchange with every peer until stopped. Every failure is logged and retried with backoff."""

    def __init__(self, ctx: Context, peers: Sequence[str], *, interval: float, batch: int) -> None:
        ctx.caller.require_all_namespaces()
        validate_settings(peers, ctx.peer_credentials)
        self._stopping = threading.Event()
        self._ctx = ctx.for_caller(ctx.caller, Progress(stop=self._stopping))
        self._interval = interval
        self._batch = batch
        self._clients = [PeerClient(url, get_access(ctx, url)) for url in dict.fromkeys(peers)]
        self._wake_events = [threading.Event() for _ in self._clients]
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        work: list[tuple[Callable[..., None], tuple[object, ...]]] = [(self._watch_journal, ())]
        work += [(self._sync_peer, one) for one in zip(self._clients, self._wake_events, strict=True)]
        self._threads = [
            threading.Thread(target=target, args=args, name="holdfast-sync", daemon=True) for target, args in work
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop between two pages without waiting long for a slow peer. Applied pages are durable."""
        self._stopping.set()
        for wake in self._wake_events:
            wake.set()
        self._join_threads(GRACE_SECONDS)
        for link in self._clients:
            link.close()
        self._join_threads(END_SECONDS)

    def _join_threads(self, seconds: float) -> None:
        until = monotonic() + seconds
        for thread in self._threads:
            thread.join(max(until - monotonic(), 0.0))

    def _watch_journal(self) -> None:
        """Wake all peer threads when the journal grows; other commits do not matter."""
        last = None
        while not self._stopping.is_set():
            try:
                self._ctx.store.wait_for_commit(WATCH_SECONDS)
                with self._ctx.reading() as session:
                    seq = journal.get_head(session).seq
            except HoldfastError:
                self._stopping.wait(WATCH_SECONDS)  # peers are still synced by interval
                continue
            if seq != last and last is not None:
                for wake in self._wake_events:
                    wake.set()
            last = seq

    def _sync_peer(self, client: PeerClient, wake: threading.Event) -> None:
        failures = 0
        while not self._stopping.is_set():
            wake.clear()
            started_at = monotonic()
            why = self._try_exchange(client, failures)
            if why and not failures:
                log.warning("%s Retrying with backoff.", why)
            elif failures and not why:
                log.warning("%s is reachable again.", client.name)
            failures = failures + 1 if why else 0
            if failures:
                self._stopping.wait(compute_pause(failures, self._interval, random()))  # noqa: S311 - no secret
            else:
                wake.wait(self._interval)
            self._stopping.wait(max(started_at + MIN_CYCLE_SECONDS - monotonic(), 0.0))

    def _try_exchange(self, client: PeerClient, failures: int) -> str | None:
        """Exchange until both are in sync; return the error, if any. Pages get smaller after failures."""
        limit = max(self._batch >> failures, 1)
        try:
            while sync_with_server(self._ctx, client, "merge", limit=limit, stays=True).moved:
                self._ctx.progress.check()
        except OperationCancelled:
            return None
        except HoldfastError as error:
            return error.message
        except Exception as error:  # noqa: BLE001 - a bug with one peer must not stop the others
            where = "".join(traceback.format_tb(error.__traceback__))
            return f"The exchange with {client.name} failed with {type(error).__name__}:\n{where}"
        return None
