"""Sync daemon: keep a store in sync with its peers, one thread per peer, immediately after local changes."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Sequence
from random import random
from time import monotonic

from holdfast.features.admin.backup import must_reach_all
from holdfast.features.sync.peers.client import Link, address
from holdfast.features.sync.remote_endpoint import access_to, exchange
from holdfast.kernel.context import Hold, Progress
from holdfast.kernel.errors import Cancelled, HoldfastError, Invalid
from holdfast.kernel.journal import journal
from holdfast.kernel.net.access import Access

LONGEST_PAUSE = 20.0
"""Maximum seconds between attempts at a failing peer: after an outage all are in sync within half a minute."""
WATCH_SECONDS = 0.25
GATHER_SECONDS = 0.5
"""Minimum time from the start of one exchange to the next, to send changes in batches."""
GRACE_SECONDS = 1.0
"""Wait for a running request on stop."""
END_SECONDS = 10.0
log = logging.getLogger("holdfast")


def must_be_set(peers: Sequence[str], access: Access) -> None:
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
        address(url)


def pause_after(failures: int, interval: float, chance: float) -> float:
    """Return the pause before the next attempt: exponential backoff with jitter."""
    longest: float = min(interval * 2 ** min(failures, 20), max(LONGEST_PAUSE, interval))
    return longest * (0.5 + chance / 2)


class Daemon:
    """Exchange with every peer until stopped. Every failure is logged and retried with backoff."""

    def __init__(self, hold: Hold, peers: Sequence[str], *, interval: float, batch: int) -> None:
        must_reach_all(hold)
        must_be_set(peers, hold.access)
        self._stopping = threading.Event()
        self._hold = hold.seen_by(hold.caller, Progress(stop=self._stopping))
        self._interval = interval
        self._batch = batch
        self._links = [Link(url, access_to(hold, url)) for url in dict.fromkeys(peers)]
        self._wakes = [threading.Event() for _ in self._links]
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        work: list[tuple[Callable[..., None], tuple[object, ...]]] = [(self._watch, ())]
        work += [(self._keep, one) for one in zip(self._links, self._wakes, strict=True)]
        self._threads = [
            threading.Thread(target=does, args=given, name="holdfast-sync", daemon=True) for does, given in work
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop between two pages without waiting long for a slow peer. Applied pages are durable."""
        self._stopping.set()
        for wake in self._wakes:
            wake.set()
        self._join(GRACE_SECONDS)
        for link in self._links:
            link.close()
        self._join(END_SECONDS)

    def _join(self, seconds: float) -> None:
        until = monotonic() + seconds
        for thread in self._threads:
            thread.join(max(until - monotonic(), 0.0))

    def _watch(self) -> None:
        """Wake all peer threads when the journal grows; other commits do not matter."""
        last = None
        while not self._stopping.is_set():
            try:
                self._hold.store.wait(WATCH_SECONDS)
                with self._hold.reading() as session:
                    seq = journal.head_of(session).seq
            except HoldfastError:
                self._stopping.wait(WATCH_SECONDS)  # peers are still synced by interval
                continue
            if seq != last and last is not None:
                for wake in self._wakes:
                    wake.set()
            last = seq

    def _keep(self, link: Link, wake: threading.Event) -> None:
        failures = 0
        while not self._stopping.is_set():
            wake.clear()
            begun = monotonic()
            why = self._failed(link, failures)
            if why and not failures:
                log.warning("%s Retrying with backoff.", why)
            elif failures and not why:
                log.warning("%s is reachable again.", link.name)
            failures = failures + 1 if why else 0
            if failures:
                self._stopping.wait(pause_after(failures, self._interval, random()))  # noqa: S311 - no secret
            else:
                wake.wait(self._interval)
            self._stopping.wait(max(begun + GATHER_SECONDS - monotonic(), 0.0))

    def _failed(self, link: Link, failures: int) -> str | None:
        """Exchange until both are in sync; return the error, if any. Pages get smaller after failures."""
        limit = max(self._batch >> failures, 1)
        try:
            while exchange(self._hold, link, "merge", limit=limit, stays=True).moved:
                self._hold.progress.check()
        except Cancelled:
            return None
        except HoldfastError as error:
            return error.message
        except Exception as error:  # noqa: BLE001 - a bug with one peer must not stop the others
            where = "".join(traceback.format_tb(error.__traceback__))
            return f"The exchange with {link.name} failed with {type(error).__name__}:\n{where}"
        return None
