"""Wait for commits of any process: by LISTEN, and by polling where notifications do not arrive."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

import psycopg
from psycopg import sql

from holdfast.kernel.storage.postgres.pool import Connection

LOOK_SECONDS = 1.0
"""Polling interval: poolers and replicas do not forward notifications."""
LINGER_SECONDS = 2.0
"""How long to keep listening after a wait, for callers that wait in a loop."""


class CommitListener:
    """One connection and thread for all waiters of this process; none while nobody waits."""

    def __init__(self, connect: Callable[[], Connection], channel: str) -> None:
        self._connect = connect
        self._listen = sql.SQL("listen {}").format(sql.Identifier(channel))
        self._changed = threading.Condition()
        self._commits = 0
        self._seen = threading.local()
        self._wanted_until = 0.0
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None

    def wait(self, seconds: float) -> bool:
        """Wait for a commit since this thread's previous call; return whether there may have been one.

        The first call returns as soon as the listener runs.
        """
        with self._changed:
            self._wanted_until = max(self._wanted_until, monotonic() + seconds + LINGER_SECONDS)
            known = getattr(self._seen, "moves", None)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holdfast-listener", daemon=True)
                self._thread.start()
                known = self._commits
            moved = self._changed.wait_for(lambda: self._commits != known, seconds)
            self._seen.moves = self._commits
            return moved

    def close(self) -> None:
        """Stop listening; the thread has ended when this returns."""
        with self._changed:
            self._wanted_until = 0.0
            thread, connection = self._thread, self._connection
            self._commits += 1
            self._changed.notify_all()
        if connection is not None:
            _shut_down(connection)
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._is_wanted():
            with suppress(psycopg.Error, OSError):
                self._follow()
            with self._changed:
                self._changed.wait_for(lambda: self._wanted_until == 0, LOOK_SECONDS if self._thread else 0)

    def _is_wanted(self) -> bool:
        """Whether to continue; if not, the next waiter starts a new thread."""
        with self._changed:
            if monotonic() < self._wanted_until:
                return True
            self._thread = None
            return False

    def _follow(self) -> None:
        """Report commits until nobody waits or the connection breaks."""
        with self._connect() as connection:
            with self._changed:
                self._connection = connection
            try:
                with suppress(psycopg.errors.ReadOnlySqlTransaction):
                    connection.execute(self._listen)
                self._watch(connection)
            finally:
                with self._changed:
                    self._connection = None

    def _watch(self, connection: Connection) -> None:
        """Count commits; everything before the snapshot is visible to waiters when they wake."""
        is_notified, seen = True, None
        while True:
            now = connection.execute("select cast(pg_current_snapshot() as text)").fetchone()
            with self._changed:
                if is_notified or now != seen:
                    self._commits += 1
                    self._changed.notify_all()
                if monotonic() >= self._wanted_until:
                    return
            seen = now
            is_notified = bool(list(connection.notifies(timeout=LOOK_SECONDS, stop_after=1)))


def _shut_down(connection: Connection) -> None:
    """Shut down a connection's socket; this wakes a thread that waits on it."""
    with suppress(psycopg.Error, OSError), socket.socket(fileno=connection.pgconn.socket) as own:
        try:
            own.shutdown(socket.SHUT_RDWR)
        finally:
            own.detach()
