"""Who waits for a change anywhere is woken by the database, and by the clock where that does not come through."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

import psycopg
from psycopg import sql

from holdfast.kernel.storage.postgres.pool import Connection

LOOK_SECONDS = 1.0
"""A pooler, or a replica, passes no word on: so often the database is asked whether anything was committed."""
LINGER_SECONDS = 2.0
"""Who waits in a loop comes back within this; if nobody does, nothing listens any more."""


class Listener:
    """One connection, and a thread that reads it, for all who wait in this process; none while nobody waits."""

    def __init__(self, connect: Callable[[], Connection], channel: str) -> None:
        self._connect = connect
        self._listen = sql.SQL("listen {}").format(sql.Identifier(channel))
        self._changed = threading.Condition()
        self._moves = 0
        self._seen = threading.local()
        self._wanted_until = 0.0
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None

    def wait(self, seconds: float) -> bool:
        """Whether something may have been committed since this thread last returned from here; it waits for that.

        The first time this is as soon as there is somebody who listens.
        """
        with self._changed:
            self._wanted_until = max(self._wanted_until, monotonic() + seconds + LINGER_SECONDS)
            known = getattr(self._seen, "moves", None)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holdfast-listener", daemon=True)
                self._thread.start()
                known = self._moves
            moved = self._changed.wait_for(lambda: self._moves != known, seconds)
            self._seen.moves = self._moves
            return moved

    def close(self) -> None:
        """End the listening: its thread is gone when this returns."""
        with self._changed:
            self._wanted_until = 0.0
            thread, connection = self._thread, self._connection
            self._moves += 1
            self._changed.notify_all()
        if connection is not None:
            _hang_up(connection)
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._is_wanted():
            with suppress(psycopg.Error, OSError):
                self._follow()
            with self._changed:
                self._changed.wait_for(lambda: self._wanted_until == 0, LOOK_SECONDS if self._thread else 0)

    def _is_wanted(self) -> bool:
        """Whether to go on; if not, the next who waits begins anew."""
        with self._changed:
            if monotonic() < self._wanted_until:
                return True
            self._thread = None
            return False

    def _follow(self) -> None:
        """Tell of changes until nobody wants to know or the connection breaks."""
        with self._connect() as connection:
            with self._changed:
                self._connection = connection
            try:
                with suppress(psycopg.errors.ReadOnlySqlTransaction):
                    connection.execute(self._listen)
                self._tell(connection)
            finally:
                with self._changed:
                    self._connection = None

    def _tell(self, connection: Connection) -> None:
        """What was committed before the snapshot is seen by whoever looks after being told of it."""
        told, seen = True, None
        while True:
            now = connection.execute("select cast(pg_current_snapshot() as text)").fetchone()
            with self._changed:
                if told or now != seen:
                    self._moves += 1
                    self._changed.notify_all()
                if monotonic() >= self._wanted_until:
                    return
            seen = now
            told = bool(list(connection.notifies(timeout=LOOK_SECONDS, stop_after=1)))


def _hang_up(connection: Connection) -> None:
    """Wake whoever waits at a connection: it finds that there is none any more."""
    with suppress(psycopg.Error, OSError), socket.socket(fileno=connection.pgconn.socket) as own:
        try:
            own.shutdown(socket.SHUT_RDWR)
        finally:
            own.detach()
