"""A SQLite file as the destination of a copy, and the list of all tables."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import apsw

from holdfast.kernel import errors
from holdfast.kernel.journal import journal
from holdfast.kernel.storage import migrations
from holdfast.kernel.storage.copy_tables import HEAD, Table, Target, TargetState
from holdfast.kernel.storage.sqlite import schema
from holdfast.kernel.storage.sqlite.connection import (
    enable_wal,
    open_database,
    sync_folder,
    translate_errors,
    wait_for_lock,
)
from holdfast.kernel.storage.sqlite.engine import APPLICATION_ID, FOLDERS, SqliteSession, SqliteStore, roll_back
from holdfast.kernel.storage.sqlite.open_store import (
    MIN_DATABASE_BYTES,
    UNFINISHED_MARK,
    build_tables,
    is_unfinished,
    make_private,
    prepare_file,
)

OWN_TABLES = {"migration", "binary_index", "binary_index_pack", "embedding_removed"}
"""Tables that are not copied: the migrations of a file, and what is derived from other tables."""


@cache
def tables() -> tuple[Table, ...]:
    """Return the tables of both engines, referenced tables first.

    The head comes first, so that a copied head is never older than the copied rows.
    """
    with closing(open_database(":memory:")) as made:
        schema.create_tables(made, migrations.load_migrations(*FOLDERS))
        names = [name for (name,) in made.execute("select name from pragma_table_list where type = 'table'")]
        points_to = {
            name: {to for (to,) in made.execute('select "table" from pragma_foreign_key_list(?)', (name,))}
            for name in sorted(names)
            if not name.startswith("sqlite_") and name not in OWN_TABLES
        }
        found = [_table(made, name) for name in TopologicalSorter(points_to).static_order()]
    return tuple(sorted(found, key=lambda table: table.name != HEAD))


def _table(made: apsw.Connection, name: str) -> Table:
    columns = made.execute("select name, pk from pragma_table_info(?) order by cid", (name,)).fetchall()
    key = sorted((place, column) for column, place in columns if place)
    return Table(name, tuple(str(column) for column, _ in columns), tuple(str(column) for _, column in key))


class SqliteDestination:
    """A file that is missing, empty, or has an unfinished copy."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._file = path

    def inspect(self) -> TargetState:
        with translate_errors():
            file = self._file.resolve()
            if not file.exists():
                _check_can_create(file)
                return self._empty_state()
            if not file.is_file() or 0 < file.stat().st_size < MIN_DATABASE_BYTES:
                raise errors.NotAStore(f"{file} is not a database; it was not changed.")
            if not file.stat().st_size:
                return self._empty_state()
            with closing(_connect(file)) as connection:
                return self._inspect(connection)

    def begin(self, head: journal.Head, check: Callable[[TargetState], None]) -> Target:
        check(self.inspect())
        file = make_private(self._file)
        mark = UNFINISHED_MARK | int.from_bytes(os.urandom(2))
        with translate_errors(), closing(_connect(file)) as connection:
            enable_wal(connection)
            connection.execute("pragma synchronous=full; begin immediate").fetchall()
            try:
                found = self._inspect(connection)
                check(found)
                connection.execute(f"pragma application_id={mark}")
                build_tables(connection)
                session = SqliteSession(connection)
                if session.row("journal_head_get") is None:
                    session.do("journal_head_add", **head._asdict())
                connection.execute("commit")
            except BaseException:
                roll_back(connection)
                raise
        store = SqliteStore(file, "", lambda: prepare_file(file))
        return Target(store, mark, resumed=found.state == "unfinished")

    def _empty_state(self) -> TargetState:
        return TargetState("nothing", key=self._key())

    def _inspect(self, connection: apsw.Connection) -> TargetState:
        application = connection.pragma("application_id")
        ours = application == APPLICATION_ID or is_unfinished(application)
        if not ours and not connection.execute("select 1 from sqlite_schema").fetchall():
            return self._empty_state()
        if not ours:
            raise errors.NotAStore(f"{self.path} is a database of another program; it was not changed.")
        if application == APPLICATION_ID:
            return TargetState("store", identity=SqliteStore(self._file.resolve()).identity())
        return TargetState("unfinished", journal.get_head(SqliteSession(connection)).node, key=self._key())

    def _key(self) -> bytes | None:
        file = SqliteStore(self._file.resolve()).sidecar_path("key")
        return file.read_bytes() if file.exists() else None


def _check_can_create(file: Path) -> None:
    folder = next(folder for folder in file.parents if folder.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise errors.StoreUnreachable(f"The store {file} cannot be created: {folder} is not writable.")


def _connect(file: Path) -> apsw.Connection:
    connection = open_database(str(file))
    connection.set_busy_handler(wait_for_lock)
    # Otherwise closing a database of another program would checkpoint its WAL.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(Path(f"{file}-wal").exists()))
    return connection


@contextmanager
def new_copy(to: Path) -> Iterator[SqliteSession]:
    """Open a session that fills a new file: at the end a durable, private store; after an error nothing."""
    with translate_errors():
        os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            with closing(open_database(str(to))) as connection:
                connection.execute("pragma journal_mode=off; pragma synchronous=off; begin").fetchall()
                build_tables(connection)
                yield SqliteSession(connection)
                connection.execute(f"pragma application_id={APPLICATION_ID}; commit").fetchall()
            with open(to, "rb") as file:
                os.fsync(file.fileno())
            sync_folder(to.parent)
        except BaseException:
            to.unlink(missing_ok=True)
            raise
