"""Quorum writes: a write succeeds once enough stores have acknowledged each of its changes."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from time import monotonic
from typing import Any

from holdfast.features.sync.peers.client import address
from holdfast.features.sync.quorum import store as unreplicated
from holdfast.features.sync.quorum.pending_ack import REASONS, SILENT, Missed, Promise
from holdfast.features.sync.quorum.pusher import Courier
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import HoldfastError, Misconfigured, QuorumNotMet
from holdfast.kernel.journal.journal import Place
from holdfast.kernel.records.change import Name
from holdfast.kernel.storage.port import Session

TIDY_SECONDS = 1.0
END_SECONDS = 10.0
MOST_TOLD = 100


def must_be_set(needed: int, peers: Sequence[str]) -> None:
    """Raise Misconfigured if the quorum can never be met, or if a peer would count twice."""
    for url in peers:
        try:
            address(url)
        except HoldfastError as error:
            raise Misconfigured(f"quorum_peers: {error.message}") from None
    if len({url.rstrip("/") for url in peers}) < len(peers):
        raise Misconfigured("quorum_peers: a peer is listed twice. Remove one.")
    if needed > 1 + len(peers):
        raise Misconfigured(
            f"quorum_writes: at most {1 + len(peers)}, the number of stores including this one (got {needed})."
        )
    if peers and not needed:
        raise Misconfigured("quorum_writes: set how many stores must have a change, including this one.")


class Quorum:
    """Wait for acknowledgements of local changes from enough stores."""

    def __init__(self, hold: Hold, *, needed: int, peers: Sequence[str], timeout: float) -> None:
        must_be_set(needed, peers)
        self._hold = hold
        self._needed = needed
        self._timeout = timeout
        self._changed = threading.Condition()
        self._open: dict[Name, Promise] = {}
        self._settled: list[int] = []
        self._stopping = threading.Event()
        self._couriers = [Courier(hold, url, self, self._stopping) for url in peers]
        self._tidier = threading.Thread(target=self._tidy, name="holdfast-quorum-tidy", daemon=True)

    def start(self) -> None:
        """Start the pushers; resume with the changes pending from the previous process."""
        with self._hold.reading() as session:
            self._open = {one.name: Promise(one) for one in unreplicated.marked(session)}
        self._tidier.start()
        for courier in self._couriers:
            courier.start()

    def stop(self) -> None:
        """Stop the pushers; undelivered changes stay pending in the store."""
        self._stopping.set()
        for courier in self._couriers:
            courier.stop()
        until = monotonic() + END_SECONDS
        for thread in (self._tidier, *(courier.thread for courier in self._couriers)):
            thread.join(max(until - monotonic(), 0.0))

    def mark(self, session: Session, places: Sequence[Place], origin: str, now: int) -> None:
        """Mark changes as pending in the transaction that writes them, so they survive a crash."""
        unreplicated.mark(session, places, origin, now)

    def wait(self, places: Sequence[Place], *, named: bool) -> None:
        """Return once enough stores have all changes; raise QuorumNotMet when all peers answered or on timeout.

        `named`: the error lists the outcome per peer; only for callers who may see the peers.
        """
        with self._hold.reading() as session:
            marked = unreplicated.marked(session, places[0].seq, places[-1].seq)
        deadline = monotonic() + self._timeout
        with self._changed:
            promises = [self._open.setdefault(one.name, Promise(one)) for one in marked]
            self._settle(promises)
            for courier in self._couriers:
                courier.wake()
            while not self._is_decided(promises) and (left := deadline - monotonic()) > 0:
                self._changed.wait(left)
            short = [one for one in promises if one.got < self._needed]
            if short:
                raise self._not_met(short, named=named)

    def _is_decided(self, promises: Iterable[Promise]) -> bool:
        """Whether each change has enough acknowledgements or an answer from every peer."""
        peers = len(self._couriers)
        return all(one.got >= self._needed or len(one.kept_by.keys() | one.missed.keys()) == peers for one in promises)

    def _not_met(self, short: Sequence[Promise], *, named: bool) -> QuorumNotMet:
        worst = min(short, key=lambda one: one.got)
        missed = {
            one.name: worst.missed.get(one.name, SILENT) for one in self._couriers if one.name not in worst.kept_by
        }
        peers = dict.fromkeys(worst.kept_by, "kept") | {peer: why.what for peer, why in missed.items()}
        more: dict[str, Any] = {"peers": peers} if named else {}
        return QuorumNotMet(
            f"Stored here, but only {worst.got} of {self._needed} required stores have it so far. It stays pending and "
            "is delivered later: do not send it again.",
            got=worst.got,
            needed=self._needed,
            reason=min((why.reason for why in missed.values()), key=REASONS.index, default="rejected"),
            **more,
            pending=[{"kind": one.change.kind, "id": one.change.record} for one in short[:MOST_TOLD]],
        )

    def open_for(self, peer: str) -> list[Promise]:
        """Return the changes that a peer has not acknowledged."""
        with self._changed:
            return [one for one in self._open.values() if peer not in one.kept_by]

    def kept(self, peer: str, node: str, names: Collection[Name]) -> None:
        """Record that a peer acknowledged changes as durable."""
        with self._changed:
            found = [self._open[name] for name in names if name in self._open]
            for promise in found:
                promise.kept_by[peer] = node
                promise.missed.pop(peer, None)
            self._settle(found)
            self._changed.notify_all()

    def missed(self, peer: str, names: Iterable[Name], why: Missed) -> None:
        with self._changed:
            for name in names:
                if name in self._open:
                    self._open[name].missed[peer] = why
            self._changed.notify_all()

    def _settle(self, promises: Iterable[Promise]) -> None:
        for promise in promises:
            if promise.got >= self._needed and self._open.pop(promise.change.name, None) is not None:
                self._settled.append(promise.change.seq)

    def _tidy(self) -> None:
        """Remove marks in batches, and pick up pending changes that no writer waits for (their call failed)."""
        while not self._stopping.wait(TIDY_SECONDS):
            self._look_after()
        self._look_after()

    def _look_after(self) -> None:
        with self._changed:
            seqs, known = list(self._settled), len(self._open)
        try:
            if seqs:
                with self._hold.store.writing() as session:
                    unreplicated.clear(session, seqs)
            with self._hold.reading() as session:
                left = unreplicated.marked(session) if unreplicated.waiting(session)[0] > known else []
        except HoldfastError:
            return  # retried later; the marks stay
        with self._changed:
            self._settled = self._settled[len(seqs) :]
            unheard = [one for one in left if one.name not in self._open and one.seq not in self._settled]
            self._open |= {one.name: Promise(one) for one in unheard}
        for courier in self._couriers if unheard else ():
            courier.wake()
