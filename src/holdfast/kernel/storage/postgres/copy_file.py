"""Copy a store to a file, and replace a store with a file."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from holdfast.kernel.storage import copy_tables
from holdfast.kernel.storage.port import Session
from holdfast.kernel.storage.postgres.address import Address
from holdfast.kernel.storage.postgres.driver_errors import translate_errors
from holdfast.kernel.storage.postgres.engine import PostgresSession, connect, lock_head_sql
from holdfast.kernel.storage.postgres.pool import Connection
from holdfast.kernel.storage.sqlite.copy_store import new_copy, tables
from holdfast.kernel.storage.sqlite.open_store import open_copy

REPLACING_SECONDS = 3600
"""Time limit for the backup before a store is replaced."""


@contextmanager
def exclusive_transaction(address: Address, seconds: float) -> Iterator[tuple[Connection, PostgresSession]]:
    """Open an exclusive write transaction without idle timeout, on a connection outside the pool."""
    with translate_errors(), connect(address) as connection:
        connection.execute(
            f"begin; set local idle_in_transaction_session_timeout = '{REPLACING_SECONDS}s'; "
            f"{address.path_setting}; {lock_head_sql(seconds)}"
        )
        yield connection, PostgresSession(connection, writes=True)


def write_copy(session: Session, to: Path) -> None:
    """Write everything a session sees to a new file, as a SQLite store."""
    with new_copy(to) as copy:
        copy_tables.copy_all_rows(copy, session, tables())


def replace_store(session: Session, by: Path) -> None:
    """Replace everything with the content of a copy. The head row stays, because other writers wait for its lock."""
    with closing(open_copy(by)) as copy, copy.reading() as source:
        copy_tables.delete_all_rows(session, tables())
        copy_tables.copy_all_rows(session, source, tables())
