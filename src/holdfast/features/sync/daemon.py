"""Keeping a store in step with its peers: each is asked by a thread of its own, at once when there is news here."""

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
"""Seconds between two looks at a peer that fails: after a network is mended, all are level within half a minute."""
WATCH_SECONDS = 0.25
GATHER_SECONDS = 0.5
"""From the beginning of one exchange to that of the next, however much is stored: so that it goes over together."""
GRACE_SECONDS = 1.0
"""For an answer that is under way when it is stopped."""
END_SECONDS = 10.0
log = logging.getLogger("holdfast")


def must_be_set(peers: Sequence[str], access: Access) -> None:
    """Raise if there is nobody to keep in step with, or under no address, or if neither would know the other."""
    if not peers:
        raise Invalid(
            "Name at least one peer: --peers https://desk.example:9077,https://cloud.example", fields=["peers"]
        )
    if access.insecure and not (access.client_cert and access.client_key):
        raise Invalid(
            "--insecure-skip-server-verify needs both --client-cert and --client-key: otherwise neither side would "
            "know the other.",
            fields=["insecure_skip_server_verify"],
        )
    if (access.client_cert is None) != (access.client_key is None):
        raise Invalid("A client certificate needs its key, and the key its certificate.", fields=["client_cert"])
    for url in peers:
        address(url)


def pause_after(failures: int, interval: float, chance: float) -> float:
    """How long a peer is left alone: twice as long with each failure, and not all at the same moment."""
    longest: float = min(interval * 2 ** min(failures, 20), max(LONGEST_PAUSE, interval))
    return longest * (0.5 + chance / 2)


class Daemon:
    """Exchanges with every peer until it is stopped. Any failure is told, waited out and tried again."""

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
        """End between two pages; who does not answer soon is not waited for. What was taken is durable."""
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
        """Wake everybody when the journal has grown; other commits are nobody's business."""
        last = None
        while not self._stopping.is_set():
            try:
                self._hold.store.wait(WATCH_SECONDS)
                with self._hold.reading() as session:
                    seq = journal.head_of(session).seq
            except HoldfastError:
                self._stopping.wait(WATCH_SECONDS)  # the peers are looked at by the clock meanwhile
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
                log.warning("%s It is tried again, less and less often.", why)
            elif failures and not why:
                log.warning("%s answers again.", link.name)
            failures = failures + 1 if why else 0
            if failures:
                self._stopping.wait(pause_after(failures, self._interval, random()))  # noqa: S311 - no secret
            else:
                wake.wait(self._interval)
            self._stopping.wait(max(begun + GATHER_SECONDS - monotonic(), 0.0))

    def _failed(self, link: Link, failures: int) -> str | None:
        """Exchange until neither has anything new; why that failed, if it did. After failures less goes at once."""
        limit = max(self._batch >> failures, 1)
        try:
            while exchange(self._hold, link, "merge", limit=limit, stays=True).moved:
                self._hold.progress.check()
        except Cancelled:
            return None
        except HoldfastError as error:
            return error.message
        except Exception as error:  # noqa: BLE001 - a fault of ours with one peer must not end the others
            where = "".join(traceback.format_tb(error.__traceback__))
            return f"The exchange with {link.name} failed with {type(error).__name__}:\n{where}"
        return None
