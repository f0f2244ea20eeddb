"""Connections that are kept for the next one who needs one. No thread of its own: whoever needs one makes it."""

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
from holdfast.kernel.storage.postgres.driver_errors import foreign

logging.getLogger("psycopg").addHandler(logging.NullHandler())  # what it says of a broken connection, we say

AGAIN_SECONDS = 0.2
"""Between two tries to reach a database that is away."""
IDLE_SECONDS = 300
"""What was not needed for so long is let go."""


class Pipeline(psycopg.Pipeline):
    """Statements that wait for their answers together.

    The driver's own asks once more to flush after its end, and the database takes that for work: it would never time
    out who stops then, in the middle of a transaction. Nothing may be fetched inside.
    """

    def _fetch_gen(self, *, flush: bool) -> Any:
        return super()._fetch_gen(flush=False)


class Connection(psycopg.Connection[Row]):
    """One whose pipelines end where they end."""

    def pipeline(self) -> Any:
        self._pipeline = self._pipeline or Pipeline(self)
        return super().pipeline()


class Pool:
    """At most `size` connections, the last given back first. A database that is away is waited for, but not long."""

    def __init__(self, connect: Callable[[], Connection], size: int, wait_seconds: float) -> None:
        self._connect = connect
        self._size = size
        self._wait_seconds = wait_seconds
        self._places = threading.Semaphore(size)
        self._lock = threading.Condition()
        self._idle: list[tuple[float, Connection]] = []
        self._taken = set[Connection]()
        self._away = (0.0, 0.0)
        """When the database was first and when it was last found to be away."""

    def take(self, seconds: float = inf) -> Connection:
        """A connection that is nobody else's until it is given back, within so many seconds."""
        until = monotonic() + min(seconds, self._wait_seconds)
        if not self._places.acquire(timeout=min(seconds, self._wait_seconds)):
            raise errors.StoreBusy(
                f"All {self._size} connections to the database are taken: try again, or allow more (pool_size)."
            )
        try:
            connection = self._kept() or self._made(until)
            with self._lock:
                self._taken.add(connection)
            return connection
        except BaseException:
            self._places.release()
            raise

    def give_back(self, connection: Connection) -> None:
        """Whatever state it is in: a transaction in it is undone, a broken one is let go, and its like with it."""
        try:
            with suppress(psycopg.Error):
                if connection.info.transaction_status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR):
                    connection.execute("rollback")
        finally:
            pipelined = connection.info.pipeline_status != pq.PipelineStatus.OFF
            whole = connection.info.transaction_status == pq.TransactionStatus.IDLE and not pipelined
            with self._lock:
                ours = connection in self._taken
                self._taken.discard(connection)
                if whole and ours:
                    self._idle.append((monotonic(), connection))
                    self._lock.notify()
                let_go = self._old() if whole else self._all_idle()
            if ours:
                self._places.release()
            if not (whole and ours):
                connection.close()
            for one in let_go:
                one.close()

    def close(self) -> None:
        """Let go of all of them; one that is in use ends where it is."""
        with self._lock:
            let_go = [*self._all_idle(), *self._taken]
            for _ in self._taken:
                self._places.release()
            self._taken.clear()
        for connection in let_go:
            connection.close()

    def _kept(self) -> Connection | None:
        with self._lock:
            return self._idle.pop()[1] if self._idle else None

    def _old(self) -> list[Connection]:
        since = monotonic() - IDLE_SECONDS
        old = [connection for at, connection in self._idle if at < since]
        self._idle = [(at, connection) for at, connection in self._idle if at >= since]
        return old

    def _all_idle(self) -> list[Connection]:
        let_go, self._idle = [connection for _, connection in self._idle], []
        return let_go

    def _made(self, until: float) -> Connection:
        """A new one, or one that is given back meanwhile: the database may allow fewer than we would make.

        Who comes when the database has been away for long already is told so at once.
        """
        while True:
            try:
                connection = self._connect()
            except psycopg.Error as error:
                ours = foreign(error)
                is_full = isinstance(ours, errors.StoreBusy)
                is_over = monotonic() >= until if is_full else self._has_been_away() >= self._wait_seconds
                if not ours.retryable or is_over:
                    raise ours from error
                if kept := self._given_back():
                    return kept
            else:
                self._away = (0.0, 0.0)
                return connection

    def _given_back(self) -> Connection | None:
        """Wait a moment for one."""
        with self._lock:
            self._lock.wait_for(lambda: self._idle, AGAIN_SECONDS)
            return self._kept()

    def _has_been_away(self) -> float:
        """For how many seconds; an absence that nobody has noticed for a while is a new one."""
        now = monotonic()
        first, last = self._away
        first = first if now - last < self._wait_seconds else now
        self._away = (first, now)
        return now - first


def hung_up(connection: Connection) -> bool:
    """Whether the database has ended a connection on which it was asked nothing."""
    try:
        for _ in ("its last words", "the end"):
            connection.pgconn.consume_input()
    except psycopg.Error:
        return True
    return connection.broken
