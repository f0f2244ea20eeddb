"""Opening a store's file: private before its first byte, ours, and migrated."""

import os
import secrets
import stat
from contextlib import closing
from pathlib import Path

import apsw

from ...domain import errors
from ...domain.moment import now
from .. import migrate
from .engine import APPLICATION_ID, FOLDERS, SqliteSession, SqliteStore, patiently, translated, wait


def open_copy(path: Path) -> SqliteStore:
    """The store in a copy that exists, brought up to this release; anything else is refused."""
    with translated(), closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        if connection.pragma("application_id") != APPLICATION_ID:
            raise errors.NotAStore(f"{path.name} is no copy of a Holdfast store.")
    return open_store(path)


def open_store(path: Path, vfs: str = "") -> SqliteStore:
    """The store in this file, made if there is none. Two processes may do this at once."""
    make_private(path)
    latest = migrate.known(*FOLDERS)
    with translated():
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs or None)
        try:
            connection.set_busy_handler(wait)
            if not current(connection, path, latest):
                bring_up(connection, path, latest)
        finally:
            connection.close()
    return SqliteStore(path, vfs)


def make_private(path: Path) -> None:
    """The file with mode 0600, and a directory of our own making with 0700, before anything is in them."""
    try:
        for folder in reversed([p for p in path.parents if not p.exists()]):
            folder.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not stat.S_ISREG(path.stat().st_mode):
            raise errors.StoreUnreachable(f"{path} is not a file: name one, such as {path / 'holdfast.db'}") from None
    except OSError as error:
        raise errors.StoreUnreachable(f"The store {path} cannot be opened: {error.strerror}.") from error


def current(connection: apsw.Connection, path: Path, latest: list[migrate.Migration]) -> bool:
    """Whether the store is ours and complete; a foreign file is refused untouched."""
    application, version = connection.pragma("application_id"), connection.pragma("user_version")
    assert isinstance(version, int)
    if application != APPLICATION_ID:
        if version or connection.execute("select count(*) from sqlite_schema").fetchall()[0][0]:
            raise errors.NotAStore(f"{path} is a database of another program; it was left as it is.")
        return False
    if version > latest[-1].number:
        raise errors.NewerStore
    return version == latest[-1].number and not migrate.pending(recorded(connection), latest)


def recorded(connection: apsw.Connection) -> dict[int, str]:
    if not connection.execute("select 1 from sqlite_schema where name = 'migration'").fetchall():
        return {}
    return dict(SqliteSession(connection).rows("migration_list"))


def bring_up(connection: apsw.Connection, path: Path, latest: list[migrate.Migration]) -> None:
    """Apply what is missing, all of it or nothing. Whoever comes second finds it done."""
    patiently(connection, "pragma journal_mode=wal")
    connection.execute("pragma synchronous=full")
    connection.execute("begin immediate")
    try:
        if not current(connection, path, latest):
            done = recorded(connection)
            if done:
                back_up(path, max(done))
            else:
                connection.execute(f"pragma application_id={APPLICATION_ID}")
                connection.execute(migrate.strict(migrate.TABLE + ";"))
            for migration in migrate.pending(done, latest):
                apply(connection, migration)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def apply(connection: apsw.Connection, migration: migrate.Migration) -> None:
    session = SqliteSession(connection)
    connection.execute(migrate.strict(migration.script)).fetchall()
    session.do(
        "migration_add", number=migration.number, name=migration.name, checksum=migration.checksum, applied_at=now()
    )
    if session.row("chain_head") is None:
        node = secrets.token_hex(6)
        session.do("chain_begin", node=node, origin=f"{node}.1", empty=b"")
    connection.execute(f"pragma user_version={migration.number}")


def back_up(path: Path, version: int) -> None:
    """A copy of the store as it was before the migration, beside it."""
    copy = path.with_name(f"{path.name}.before-v{version + 1}-{now()}")
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        reader.execute("vacuum into ?", (str(copy),))
    finally:
        reader.close()
