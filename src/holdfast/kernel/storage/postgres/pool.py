"""Connection pool without a thread of its own: callers create the connections they need."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any

import psycopg
from psycopg import pq

from holdfast.kernel import errors
from holdfast.kernel.storage.port import Row
from holdfast.kernel.storage.postgres.driver_errors import translate_error

logging.getLogger("psycopg").addHandler(logging.NullHandler())  # we report broken connections ourselves

RETRY_SECONDS = 0.2
"""Pause between attempts to reach an unavailable database."""
IDLE_SECONDS = 300
"""Idle connections are closed after this time."""


class Pipeline(psycopg.Pipeline):
    """A pipeline without a final flush request.

    The driver's pipeline sends one more flush after its end. The database counts that as activity and would never time
    out a client that stops then, inside a transaction. Do not fetch inside the pipeline.
    """

    def _fetch_gen(self, *, flush: bool) -> Any:
        return super()._fetch_gen(flush=False)


class Connection(psycopg.Connection[Row]):
    """A connection that uses our Pipeline."""

    def pipeline(self) -> Any:
        self._pipeline = self._pipeline or Pipeline(self)
        return super().pipeline()


class Pool:
    """At most `size` connections, most recently used first. Waits a limited time for an unavailable database."""

    def __init__(self, connect: Callable[[], Connection], size: int, wait_seconds: float) -> None:
        self._connect = connect
        self._size = size
        self._wait_seconds = wait_seconds
        self._slots = threading.Semaphore(size)
        self._lock = threading.Condition()
        self._idle: list[tuple[float, Connection]] = []
        self._in_use = set[Connection]()
        self._outage = (0.0, 0.0)
        """First and last failure of the current outage."""

    def acquire(self, seconds: float = inf) -> Connection:
        """Acquire a connection within `seconds`; give it back with `release`."""
        until = monotonic() + min(seconds, self._wait_seconds)
        if not self._slots.acquire(timeout=min(seconds, self._wait_seconds)):
            raise errors.StoreBusy(
                f"All {self._size} connections to the database are in use: try again, or raise pool_size."
            )
        try:
            connection = self._pop_idle() or self._connect_or_wait(until)
            with self._lock:
                self._in_use.add(connection)
            return connection
        except BaseException:
            self._slots.release()
            raise

    def release(self, connection: Connection) -> None:
        """Release a connection in any state: a transaction is rolled back; a broken one closes all idle ones too."""
        try:
            with suppress(psycopg.Error):
                if connection.info.transaction_status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR):
                    connection.execute("rollback")
        finally:
            pipelined = connection.info.pipeline_status != pq.PipelineStatus.OFF
            whole = connection.info.transaction_status == pq.TransactionStatus.IDLE and not pipelined
            with self._lock:
                ours = connection in self._in_use
                self._in_use.discard(connection)
                if whole and ours:
                    self._idle.append((monotonic(), connection))
                    self._lock.notify()
                let_go = self._pop_stale() if whole else self._pop_all_idle()
            if ours:
                self._slots.release()
            if not (whole and ours):
                connection.close()
            for one in let_go:
                one.close()

    def close(self) -> None:
        """Close all connections, including those in use."""
        with self._lock:
            let_go = [*self._pop_all_idle(), *self._in_use]
            for _ in self._in_use:
                self._slots.release()
            self._in_use.clear()
        for connection in let_go:
            connection.close()

    def _pop_idle(self) -> Connection | None:
        with self._lock:
            return self._idle.pop()[1] if self._idle else None

    def _pop_stale(self) -> list[Connection]:
        since = monotonic() - IDLE_SECONDS
        old = [connection for at, connection in self._idle if at < since]
        self._idle = [(at, connection) for at, connection in self._idle if at >= since]
        return old

    def _pop_all_idle(self) -> list[Connection]:
        let_go, self._idle = [connection for _, connection in self._idle], []
        return let_go

    def _connect_or_wait(self, until: float) -> Connection:
        """Connect, or take a connection that is released meanwhile: the server's limit may be lower than the pool's.

        During a long outage this fails at once.
        """
        while True:
            try:
                connection = self._connect()
            except psycopg.Error as error:
                ours = translate_error(error)
                is_full = isinstance(ours, errors.StoreBusy)
                is_over = monotonic() >= until if is_full else self._outage_seconds() >= self._wait_seconds
                if not ours.retryable or is_over:
                    raise ours from error
                if kept := self._wait_for_idle():
                    return kept
            else:
                self._outage = (0.0, 0.0)
                return connection

    def _wait_for_idle(self) -> Connection | None:
        """Wait briefly for a released connection."""
        with self._lock:
            self._lock.wait_for(lambda: self._idle, RETRY_SECONDS)
            return self._pop_idle()

    def _outage_seconds(self) -> float:
        """Return the duration of the outage; a failure long after the last one starts a new outage."""
        now = monotonic()
        first, last = self._outage
        first = first if now - last < self._wait_seconds else now
        self._outage = (first, now)
        return now - first


def is_closed_by_server(connection: Connection) -> bool:
    """Whether the server has closed an idle connection."""
    try:
        for _ in ("pending messages", "end of stream"):
            connection.pgconn.consume_input()
    except psycopg.Error:
        return True
    return connection.broken
