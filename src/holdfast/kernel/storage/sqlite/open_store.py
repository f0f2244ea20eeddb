"""Open a store's file: make it private, check that it is ours, and migrate it."""

import os
import stat
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from time import time_ns

import apsw

from holdfast.kernel import errors
from holdfast.kernel.journal import journal
from holdfast.kernel.storage import data_migrations, migrations
from holdfast.kernel.storage.sqlite import schema
from holdfast.kernel.storage.sqlite.connection import (
    copy_into,
    enable_wal,
    open_database,
    sync_folder,
    translate_errors,
    wait_for_lock,
)
from holdfast.kernel.storage.sqlite.engine import APPLICATION_ID, FOLDERS, SqliteSession, SqliteStore, roll_back

UNFINISHED_MARK = 0x484D0000
"""Application id of a file that is being filled; the lower half identifies the copy."""
MIN_DATABASE_BYTES = 512
"""Size of the smallest database in bytes. SQLite treats smaller files as empty and would overwrite them."""


def open_copy(path: Path) -> SqliteStore:
    """Open an existing copy of a store and migrate it; other files are rejected."""
    with translate_errors(), closing(open_database(str(path))) as connection:
        if connection.pragma("application_id") != APPLICATION_ID:
            raise errors.NotAStore(f"{path.name} is not a copy of a Holdfast store.")
    return open_store(path)


def open_store(path: Path, vfs: str = "", *, make: bool = True) -> SqliteStore:
    """Open the store in a file; create it if missing, all or nothing. Safe in concurrent processes."""
    if not make:
        require_content(path)
    path = make_private(path)
    prepare = partial(prepare_file, path, vfs, make=make)
    prepare()
    return SqliteStore(path, vfs, prepare)


def require_content(path: Path) -> None:
    """Raise StoreNotFound if the file is missing or empty. Other errors are found when it is opened."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise no_store_at(path) from None
    except OSError:
        return
    if stat.S_ISREG(status.st_mode) and not status.st_size:
        raise no_store_at(path)


def no_store_at(path: Path) -> errors.StoreNotFound:
    return errors.StoreNotFound(f"There is no store at {path}.")


def prepare_file(path: Path, vfs: str = "", *, make: bool = True) -> None:
    """Check and migrate the file; other files are rejected unchanged."""
    latest = migrations.load_migrations(*FOLDERS)
    with translate_errors(), closing(open_database(str(path), vfs)) as file:
        file.set_busy_handler(wait_for_lock)
        # Otherwise closing a database of another program would checkpoint its WAL.
        file.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(Path(f"{path}-wal").exists()))
        if not check_current(file, path, latest):
            if not make and file.pragma("application_id") != APPLICATION_ID:
                raise no_store_at(path)
            upgrade(file, path, vfs, latest)
        file.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def make_private(path: Path) -> Path:
    """Create the file with mode 0600, and new directories with 0700, before anything is written.

    Returns the resolved path, so that every link to a store finds the same files next to it.
    """
    try:
        path = path.resolve()
        for folder in reversed([p for p in path.parents if not p.exists()]):
            folder.mkdir(mode=0o700, exist_ok=True)
            sync_folder(folder.parent)
        create_file(path)
    except RuntimeError:
        raise errors.StoreUnreachable(f"The store {path} is a symbolic link to itself.") from None
    except OSError as error:
        raise errors.StoreUnreachable(f"The store {path} cannot be opened: {error.strerror}.") from error
    return path


def create_file(path: Path) -> None:
    """Create the file. An existing one is not opened: closing it would release this process's SQLite locks."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise errors.StoreUnreachable(f"{path} is not a regular file: choose another path for the store.") from None
        if 0 < status.st_size < MIN_DATABASE_BYTES:
            raise errors.NotAStore from None
        if not status.st_size and status.st_mode & 0o077:
            path.chmod(0o600)


def check_current(connection: apsw.Connection, path: Path, latest: Sequence[migrations.Migration]) -> bool:
    """Check in one read transaction: between two, a new store could have tables but no mark."""
    connection.execute("begin")
    try:
        return is_current(connection, path, latest)
    finally:
        roll_back(connection)


def is_unfinished(application: object) -> bool:
    return isinstance(application, int) and application & ~0xFFFF == UNFINISHED_MARK


def is_current(connection: apsw.Connection, path: Path, latest: Sequence[migrations.Migration]) -> bool:
    """Whether the file is a complete store of this version; raises if it belongs to another program."""
    application, version = connection.pragma("application_id"), connection.pragma("user_version")
    assert isinstance(version, int)
    if is_unfinished(application):
        raise errors.NotAStore(f"The migration to {path} was not finished: run it again.")
    if application != APPLICATION_ID:
        if version or connection.execute("select count(*) from sqlite_schema").fetchall()[0][0]:
            raise errors.NotAStore(f"{path} is a database of another program; it was not changed.")
        return False
    if version > latest[-1].number:
        raise errors.NewerStore
    if version < latest[-1].number:
        return False
    applied = applied_migrations(connection)
    return applied == {one.number: one.checksum for one in latest} or not migrations.pending_migrations(applied, latest)


def applied_migrations(connection: apsw.Connection) -> dict[int, str]:
    if not connection.execute("select 1 from sqlite_schema where name = 'migration'").fetchall():
        return {}
    return dict(SqliteSession(connection).rows("migration_list"))


def upgrade(connection: apsw.Connection, path: Path, vfs: str, latest: Sequence[migrations.Migration]) -> None:
    """Apply missing migrations, all or nothing, once among concurrent processes."""
    enable_wal(connection)
    connection.execute("pragma synchronous=full")
    connection.execute("begin immediate")
    try:
        if not is_current(connection, path, latest):
            if done := applied_migrations(connection):
                back_up(path, vfs, max(done))
            else:
                connection.execute(f"pragma application_id={APPLICATION_ID}")
            build_tables(connection)
            if SqliteSession(connection).row("journal_head_get") is None:
                session = SqliteSession(connection)
                journal.create_head(session, journal.get_or_create_owner(session, SqliteStore(path, vfs)))
        connection.execute("commit")
    except BaseException:
        roll_back(connection)
        raise


def build_tables(connection: apsw.Connection) -> None:
    """Create or migrate the tables."""
    done, latest = applied_migrations(connection), migrations.load_migrations(*FOLDERS)
    missing, session = migrations.pending_migrations(done, latest), SqliteSession(connection)
    if not done:
        schema.create_tables(connection, latest)
    for migration in missing if done else ():
        connection.execute(migrations.to_sqlite(migration.script)).fetchall()
    data_migrations.apply_data_migrations(missing if done else (), session)
    session.many("migration_add", ({**one.record, "applied_at": time_ns() // 1000} for one in missing))
    connection.execute(f"pragma user_version={latest[-1].number}")


def back_up(path: Path, vfs: str, version: int) -> None:
    """Write a copy of the store before the migration, next to it."""
    with closing(open_database(str(path), vfs)) as reader:
        copy_into(reader, path.with_name(f"{path.name}.before-v{version + 1}-{time_ns() // 1000}"))
