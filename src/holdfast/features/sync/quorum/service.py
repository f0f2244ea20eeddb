"""Quorum writes: a write succeeds once enough stores have acknowledged each of its changes."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from time import monotonic
from typing import Any

from holdfast.features.sync.peers.client import parse_address
from holdfast.features.sync.quorum import store as ack_store
from holdfast.features.sync.quorum.pending_ack import NO_ANSWER, REASONS, NackReason, PendingAck, count_pending
from holdfast.features.sync.quorum.pusher import PeerPusher
from holdfast.kernel.context import Context
from holdfast.kernel.errors import HoldfastError, InvalidSetting, QuorumNotMet
from holdfast.kernel.journal.journal import Position
from holdfast.kernel.records.change import ChangeId
from holdfast.kernel.storage.port import Session

CLEANUP_SECONDS = 1.0
END_SECONDS = 10.0
MAX_PENDING_LISTED = 100


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
            self._pending = {one.name: PendingAck(one) for one in ack_store.list_pending(session)}
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
        ack_store.mark_pending(session, places, origin, now)

    def wait(self, places: Sequence[Position], *, may_name_peers: bool) -> None:
        """Return once enough stores have all changes; raise QuorumNotMet when all peers answered or on timeout.

        `named`: the error lists the outcome per peer; only for callers who may see the peers.
        """
        with self._ctx.reading() as session:
            marked = ack_store.list_pending(session, places[0].seq, places[-1].seq)
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
                    ack_store.clear_pending(session, seqs)
            with self._ctx.reading() as session:
                stored = ack_store.list_pending(session) if count_pending(session)[0] > known else []
        except HoldfastError:
            return  # retried later; the marks stay
        with self._changed:
            self._acked_seqs = self._acked_seqs[len(seqs) :]
            unheard = [one for one in stored if one.name not in self._pending and one.seq not in self._acked_seqs]
            self._pending |= {one.name: PendingAck(one) for one in unheard}
        for courier in self._pushers if unheard else ():
            courier.wake()
