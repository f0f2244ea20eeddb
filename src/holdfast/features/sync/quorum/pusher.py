"""Push pending changes to one peer and collect its acknowledgements."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from random import random
from typing import Protocol

from holdfast.features.sync.daemon import pause_after
from holdfast.features.sync.endpoint import StoreEnd
from holdfast.features.sync.peers.client import Link
from holdfast.features.sync.quorum.pending_ack import Missed, Promise, Reason
from holdfast.features.sync.read_changes import Greeting, Page
from holdfast.features.sync.receive_changes import Taken, must_be_another
from holdfast.features.sync.remote_endpoint import PeerEnd, access_to, scope_with
from holdfast.kernel.context import Hold, Progress
from holdfast.kernel.errors import Cancelled, HoldfastError
from holdfast.kernel.records.change import Name

PAGE = 200
LINK_SECONDS = 10.0
AGAIN_SECONDS = 0.25
"""Pause before the immediate retry, while a writer may still wait."""
PAUSE_SECONDS = 1.0
log = logging.getLogger("holdfast")


class AckCollector(Protocol):
    """Receives the acknowledgements of a peer."""

    def open_for(self, peer: str) -> list[Promise]:
        """Return the changes that a peer has not acknowledged."""

    def kept(self, peer: str, node: str, names: Collection[Name]) -> None:
        """Record that a peer acknowledged changes as durable."""

    def missed(self, peer: str, names: Iterable[Name], why: Missed) -> None:
        """Record why a peer does not have changes."""


class Courier:
    """Push to one peer in its own thread. Failures are retried with backoff until everything is delivered."""

    def __init__(self, hold: Hold, url: str, quorum: AckCollector, stopping: threading.Event) -> None:
        self._hold = replace(hold, quorum=None).seen_by(hold.caller, Progress(stop=stopping))
        self._link = Link(url, access_to(hold, url), timeout=LINK_SECONDS)
        self._quorum = quorum
        self._stopping = stopping
        self._woken = threading.Event()
        self.name = self._link.name
        self.thread = threading.Thread(target=self._run, name="holdfast-quorum", daemon=True)

    def start(self) -> None:
        self._woken.set()
        self.thread.start()

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        self._woken.set()
        self._link.close()

    def _run(self) -> None:
        pause: float | None = None
        failures = 0
        while True:
            self._woken.wait(pause)
            self._woken.clear()
            if self._stopping.is_set():
                return
            why = self._round()
            if why and not failures:
                log.warning("%s Retrying with backoff.", why)
            failures = failures + 1 if why or self._quorum.open_for(self.name) else 0
            pause = pause_after(failures, PAUSE_SECONDS, random()) if failures else None  # noqa: S311 - no secret

    def _round(self) -> str | None:
        """Deliver all pending changes; on failure record the reason for all waiting writers and return it."""
        waiting = self._quorum.open_for(self.name)
        try:
            self._delivered(waiting)
        except Cancelled:
            return None
        except HoldfastError as error:
            why = error.message
        except Exception as error:  # noqa: BLE001 - a bug with one peer must not stop the others
            where = "".join(traceback.format_tb(error.__traceback__))
            why = f"Delivering to {self.name} failed with {type(error).__name__}:\n{where}"
        else:
            return None
        self._miss([one.change.name for one in waiting], "unreachable", why.partition("\n")[0])
        return why

    def _delivered(self, waiting: list[Promise]) -> None:
        """Deliver, with one retry: the peer may be starting, or applying another exchange at the same time."""
        try:
            self._deliver(waiting)
        except Cancelled:
            raise
        except HoldfastError:
            if self._stopping.wait(AGAIN_SECONDS):
                raise
            self._deliver(waiting)

    def _deliver(self, waiting: list[Promise]) -> None:
        """Send the pending changes, even if sent before: only the peer's outcome for each counts as an answer."""
        there = PeerEnd(self._hold, self._link)
        here = StoreEnd(self._hold, scope=scope_with(self._hold, there, self.name))
        sender, peer = here.greet(), there.greet()
        must_be_another(sender, peer)
        known = {origin: reached.n for origin, reached in peer.vector.items()}
        names = {one.change.name for one in waiting}
        heard = {name for name in names if name.n <= known.get(name.origin, 0)}
        self._quorum.kept(self.name, peer.node, heard)
        followed = there.followed(sender) if there.followed(sender) <= sender.seq else 0
        for page, sender in _pages(here, min([followed, *(one.change.seq - 1 for one in waiting)]), known):
            taken = Taken()
            there.take(page._replace(upto=max(page.upto, there.followed(sender))), sender, taken)
            heard |= self._heard(peer.node, page, taken)
        self._miss(names - heard, "rejected", "may not read its namespace")

    def _heard(self, node: str, page: Page, taken: Taken) -> set[Name]:
        """Record the peer's outcome for each sent change; return the names of the sent changes."""
        told = {Name(change.origin, change.n) for change in page.changes}
        self._quorum.kept(self.name, node, told - taken.refused.keys())
        for name in told & taken.refused.keys():
            why = taken.refused[name]
            self._miss([name], "rejected", f"rejected it: {why.detail} [{why.reason}]")
        return told

    def _miss(self, names: Iterable[Name], reason: Reason, what: str) -> None:
        self._quorum.missed(self.name, names, Missed(reason, what))


def _pages(here: StoreEnd, after: int, known: Mapping[str, int]) -> Iterator[tuple[Page, Greeting]]:
    """Yield local pages after a sequence number without known changes, each with the current handshake."""
    more = True
    while more:
        page, sender = here.tell(after, known, PAGE), here.greet()
        if page.upto > after or page.states:
            yield page, sender
        after, more = page.upto, page.more
