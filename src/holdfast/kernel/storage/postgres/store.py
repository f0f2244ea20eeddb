"""A store in a PostgreSQL schema: sessions for readers and one writer, copies, health."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import psycopg

from holdfast.kernel import errors
from holdfast.kernel.storage import migrations, port
from holdfast.kernel.storage.index_terms import DocumentFrequencies
from holdfast.kernel.storage.port import Fault, Row, Session
from holdfast.kernel.storage.postgres import copy_file, health
from holdfast.kernel.storage.postgres.address import Address
from holdfast.kernel.storage.postgres.driver_errors import BROKEN, translate_error, translate_errors
from holdfast.kernel.storage.postgres.engine import (
    FOLDERS,
    MAX_BEGIN_ATTEMPTS,
    MIN_COMMON,
    PLANNER_SETTINGS,
    READ_IDLE_SECONDS,
    WRITE_IDLE_SECONDS,
    PostgresSession,
    connect,
    last_row,
    lock_head_sql,
)
from holdfast.kernel.storage.postgres.notifications import CommitListener
from holdfast.kernel.storage.postgres.pool import Connection, Pool, is_closed_by_server


class StoreInfo(NamedTuple):
    """Identity of a store, as read through a connection."""

    place: str
    timeline: str
    channel: str
    name: str
    """Name of its local files: the same for every user and every route to the database."""

    @property
    def identity(self) -> str:
        return f"{self.place}:{self.timeline}"


@contextmanager
def hold_write_lock(lock: "threading.RLock") -> Iterator[Callable[[], float]]:
    """Hold the write lock of this process. Yields a function: the seconds left to wait for other processes."""
    until = monotonic() + port.LOCK_SECONDS
    if not lock.acquire(timeout=port.LOCK_SECONDS):
        raise errors.StoreBusy(port.LOCKED_TOO_LONG)
    try:
        yield lambda: max(0.001, until - monotonic())
    finally:
        lock.release()


class PostgresStore:
    """A schema of a database. Connections are pooled; each thread reads through one at a time."""

    def __init__(self, address: Address, about: StoreInfo) -> None:
        self.path = address.display
        self._address = address
        self._about = about
        self._lock = threading.RLock()
        self._local = threading.local()
        self._counts = DocumentFrequencies(MIN_COMMON)
        self._pool = Pool(lambda: connect(address), address.pool_size, address.wait_seconds)
        self._listener = CommitListener(lambda: connect(address), about.channel)
        self._pid = os.getpid()

    # Transactions

    @contextmanager
    def reading(self) -> Iterator[PostgresSession]:
        connection: Connection | None = getattr(self._local, "reader", None)
        if connection is not None:
            yield PostgresSession(connection, self._counts)
            return
        with self._detect_newer_store():
            connection, _ = self._begin("begin isolation level repeatable read, read only", READ_IDLE_SECONDS)
            try:
                self._local.reader = connection
                yield PostgresSession(connection, self._counts)
            finally:
                self._local.reader = None
                self._pool.release(connection)

    @contextmanager
    def transaction(self, before_commit: Callable[[], None] = lambda: None) -> Iterator[PostgresSession]:
        with self._detect_newer_store(), hold_write_lock(self._lock) as left:
            if getattr(self._local, "writes", False):
                raise RuntimeError("this thread already has an open transaction")
            connection, held = self._begin("begin", WRITE_IDLE_SECONDS, left)
            try:
                self._local.writes = True
                if held is None:
                    raise errors.StoreDamaged
                self._about = self._about._replace(timeline=held[1])
                session = PostgresSession(connection, self._counts, writes=True, key=held[0])
                yield session
                before_commit()
                session.check_not_failed()
                self._commit(connection, session)
                self._counts.expire_row()
            finally:
                self._local.writes = False
                self._pool.release(connection)

    @contextmanager
    def _detect_newer_store(self) -> Iterator[None]:
        """If a statement fails, check whether a later release has migrated the store since it was opened."""
        try:
            yield
        except errors.StoreDamaged as error:
            if self._is_newer():
                raise errors.NewerStore from error
            raise

    def _is_newer(self) -> bool:
        try:
            with translate_errors(), connect(self._address) as connection, connection.transaction():
                connection.execute(self._address.path_setting)
                recorded: dict[int, str] = dict(PostgresSession(connection).rows("migration_list"))
                migrations.pending_migrations(recorded, migrations.load_migrations(*FOLDERS))
        except errors.StoreError as error:
            return isinstance(error, errors.NewerStore)
        return False

    def in_transaction(self) -> bool:
        return getattr(self._local, "reader", None) is not None or getattr(self._local, "writes", False)

    def _commit(self, connection: Connection, session: PostgresSession) -> None:
        if is_closed_by_server(connection):
            raise BROKEN.error()
        try:
            session.send_queued("commit")
        except errors.StoreError as error:
            if connection.broken:
                raise errors.OutcomeUnknown from error
            raise

    def _begin(
        self, begin: str, idle_seconds: int, left: Callable[[], float] | None = None
    ) -> tuple[Connection, Row | None]:
        """Begin a transaction; a writer also locks the head, in the time left, and gets its row.

        If a pooled connection was closed meanwhile, the next one is used.
        """
        self._check_process()
        guard = f"set local idle_in_transaction_session_timeout = '{idle_seconds}s'"
        script = "; ".join((begin, guard, *PLANNER_SETTINGS, self._address.path_setting))
        for tries_left in reversed(range(MAX_BEGIN_ATTEMPTS)):
            connection = self._pool.acquire(left() if left else inf)
            try:
                return connection, last_row(
                    connection.execute(f"{script}; {lock_head_sql(left())}" if left else script)
                )
            except psycopg.Error as error:
                self._pool.release(connection)
                if not (connection.broken and tries_left):
                    raise translate_error(error) from error
            except BaseException:
                self._pool.release(connection)
                raise
        raise AssertionError("the last try returns or raises")

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise errors.StoreError("The store was opened before a fork: open it again in the child process.")

    def close(self) -> None:
        if self._pid != os.getpid():
            return  # the connections belong to the parent
        self._listener.close()
        self._pool.close()

    # Files and facts

    def signing_key(self, session: Session) -> bytes | None:
        if isinstance(session, PostgresSession) and session.key is not None:
            return session.key
        row = session.row("node_key_get")
        return None if row is None else bytes(row[0])

    def lacks_key(self) -> bool:
        return False

    def public_key(self, session: Session) -> bytes | None:
        row = session.row("node_key_public")
        return None if row is None else bytes(row[0])

    def make_signing_key(self, session: Session, key: bytes) -> None:
        session.do("node_key_put", key=key)

    def identity(self) -> str:
        return self._about.identity

    def sidecar_path(self, what: str) -> Path:
        return self._address.folder / f"{self._about.name}.{what}"

    def size(self) -> int:
        with self.reading() as session:
            ((size,),) = session.rows("engine_size")
        return int(size)

    def wait_for_commit(self, seconds: float) -> bool:
        self._check_process()
        return self._listener.wait(seconds)

    def snapshot(self, to: Path) -> None:
        with self.reading() as session:
            copy_file.write_copy(session, to)

    def replace(self, by: Path, prepare: Callable[[], None]) -> None:
        self._check_process()
        with (
            hold_write_lock(self._lock) as left,
            copy_file.exclusive_transaction(self._address, left()) as (connection, session),
        ):
            prepare()
            copy_file.replace_store(session, by)
            self._commit(connection, session)
            self._counts = DocumentFrequencies(MIN_COMMON)

    def faults(self) -> list[Fault]:
        return health.faults(self._address)

    def facts(self) -> dict[str, Any]:
        with self.reading() as session:
            return health.facts(session, self._address)

    def private_files(self) -> list[Path]:
        return []
