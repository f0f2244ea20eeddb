"""SQLite through apsw: WAL, full sync, one writer at a time; readers never wait."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple
from weakref import WeakSet

import apsw
import msgspec

from holdfast.kernel import errors
from holdfast.kernel.journal.journal import public_key_of
from holdfast.kernel.storage import migrations, port, statements
from holdfast.kernel.storage.index_terms import DocumentFrequencies
from holdfast.kernel.storage.port import Fault, Row, SearchTexts, Session, SqlPart
from holdfast.kernel.storage.sqlite import schema
from holdfast.kernel.storage.sqlite.connection import (
    connect,
    copy_into,
    copy_step,
    open_database,
    sync_folder,
    translate_error,
    translate_errors,
    wait_for_lock,
)
from holdfast.kernel.storage.sqlite.vectors import BinaryIndex, find_close, find_nearest
from holdfast.kernel.vector import Vector

APPLICATION_ID = 0x484F4C44
POLL_SECONDS = 0.05
MIN_COMMON = 500
"""Document frequency from which counts are cached: one more memory hardly changes them."""
HERE = Path(__file__).parent
FOLDERS = (HERE.parent / "sql", HERE / "sql")
"""Folders of the migrations."""
STATEMENTS = (statements.SHARED, HERE / "sql")

_json = msgspec.json.Encoder()
_LISTS = {list, tuple}
_FAILED = (apsw.Error, UnicodeDecodeError)


@cache
def sql_of(name: str) -> str:
    return statements.for_sqlite(statements.find_statement(statements.load_statements(*STATEMENTS), name))


@cache
def join_sql(parts: tuple[SqlPart, ...]) -> str:
    return statements.for_sqlite(statements.join_parts(statements.load_statements(*STATEMENTS), parts))


def bind_params(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert list parameters to JSON text."""
    if _LISTS.isdisjoint(map(type, params.values())):
        return params
    return {name: _json.encode(value).decode() if type(value) in _LISTS else value for name, value in params.items()}


class SqliteSession:
    """Runs named statements on one connection."""

    def __init__(
        self,
        connection: apsw.Connection,
        counts: DocumentFrequencies | None = None,
        binary_index: Callable[[], BinaryIndex] | None = None,
    ) -> None:
        self._connection = connection
        self._counts = counts or DocumentFrequencies(MIN_COMMON)
        self._binary_index = binary_index or cache(BinaryIndex)
        self._failed: errors.StoreError | None = None

    def rows(self, name: str, /, **params: Any) -> list[Row]:
        return self._run(sql_of(name), params)

    def row(self, name: str, /, **params: Any) -> Row | None:
        return next(iter(self.rows(name, **params)), None)

    def do(self, name: str, /, **params: Any) -> None:
        self.rows(name, **params)

    def many(self, name: str, /, params: Iterable[Mapping[str, Any]]) -> None:
        self.check_not_failed()
        try:
            self._connection.executemany(sql_of(name), map(bind_params, params)).fetchall()
        except _FAILED as error:
            raise self._record_failure(error) from error

    def select(self, parts: Sequence[SqlPart], params: Mapping[str, Any]) -> list[Row]:
        return self._run(join_sql(tuple(parts)), params)

    def query_sql(self, sql: str, params: Mapping[str, Any]) -> list[Row]:
        return self._run(sql, params)

    def execute_sql(self, sql: str, params: Iterable[Mapping[str, Any]]) -> None:
        for values in params:
            self._run(sql, values)

    def _run(self, sql: str, params: Mapping[str, Any]) -> list[Row]:
        self.check_not_failed()
        try:
            return self._connection.execute(sql, bind_params(params)).fetchall()
        except _FAILED as error:
            raise self._record_failure(error) from error

    def _record_failure(self, error: Exception) -> errors.StoreError:
        """Record a failure, so that every following statement raises it."""
        self._failed = errors.NewerStore() if self._is_newer(error) else translate_error(error)
        return self._failed

    def _is_newer(self, error: Exception) -> bool:
        """Whether a statement failed because a later release has migrated the store since it was opened."""
        if not isinstance(error, apsw.SQLError):
            return False
        version = self._connection.pragma("user_version")
        return isinstance(version, int) and version > migrations.load_migrations(*FOLDERS)[-1].number

    def check_not_failed(self) -> None:
        """Raise if a statement failed: part of the transaction may be rolled back, even if the error was caught."""
        if self._failed is not None:
            raise self._failed

    def index_memory(self, id: str, texts: SearchTexts | None) -> None:
        """Nothing to do: triggers do it."""

    def full_text_query(self, words: Sequence[str], *, match_all: bool) -> tuple[list[SqlPart], dict[str, Any]]:
        return ["full_text_hits"], {"match": (" " if match_all else " OR ").join(quote_word(word) for word in words)}

    def match_term(self, word: str) -> str:
        return quote_word(word)

    def nearest(self, vector: Vector, parts: Sequence[SqlPart], params: Mapping[str, Any], limit: int) -> list[Row]:
        return find_nearest(self, self._binary_index(), vector, parts, params, limit)

    def nearest_many(
        self, many: Sequence[Vector], parts: Sequence[SqlPart], params: Mapping[str, Any], limit: int
    ) -> list[list[Row]] | None:
        return find_close(self, self._binary_index(), many, parts, params, limit)

    def vectors(self, ids: Sequence[str], model: str) -> list[Row]:
        return self.rows("embedding_of", ids=list(ids), model=model)

    def purge_index(self) -> None:
        self.do("memory_text_optimize")
        self.do("binary_index_rebuild")

    def newest_row(self) -> int:
        ((last,),) = self.rows("memory_last_row")
        return int(last)

    def document_frequencies(self, stems: Sequence[str], last_row: int) -> dict[str, int]:
        known = self._counts.current_counts(last_row)
        counted: dict[str, int] = dict(
            self.rows("word_document_counts", stems=[stem for stem in stems if stem not in known])
        )
        self._counts.update(counted)
        return {**known, **counted}


def quote_word(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


class OpenConnection(NamedTuple):
    """A connection, and the device and inode of its file."""

    connection: apsw.Connection
    file: tuple[int, int]


class SqliteStore:
    """A store in a file. Each thread has its own read connection; the writer is opened on first use."""

    def __init__(self, path: Path, vfs: str = "", prepare: Callable[[], None] = lambda: None) -> None:
        self.path = str(path)
        self._file = path
        self._vfs = vfs
        self._prepare = prepare
        self._lock = threading.RLock()
        self._local = threading.local()
        self._writer: OpenConnection | None = None
        self._counts = DocumentFrequencies(MIN_COMMON)
        self._binary_index = cache(BinaryIndex)
        """Returns the binary index that all readers share; the first search creates it."""
        self._key: bytes | None = None
        self._key_seen: tuple[int, int, int] | None = None
        self._connections_lock = threading.Lock()
        self._connections = WeakSet[apsw.Connection]()
        self._pid = os.getpid()

    @contextmanager
    def reading(self) -> Iterator[SqliteSession]:
        self._local.reader = self._current(getattr(self._local, "reader", None), "query_only=on")
        connection = self._local.reader.connection
        if connection.in_transaction:
            yield SqliteSession(connection, self._counts, self._binary_index)
            return
        try:
            _execute(connection, "begin")
            yield SqliteSession(connection, self._counts, self._binary_index)
        finally:
            if not roll_back(connection):
                self._local.reader = None

    @contextmanager
    def transaction(self, before_commit: Callable[[], None] = lambda: None) -> Iterator[SqliteSession]:
        with self._hold_write_lock() as until:
            self._writer = self._current(self._writer, "query_only=off")
            connection = self._writer.connection
            if connection.in_transaction:
                raise RuntimeError("this thread already has an open transaction")
            connection.set_busy_handler(lambda tries: wait_for_lock(tries) and monotonic() < until)
            # Without the shared binary index: a rollback would leave its vectors there.
            session = SqliteSession(connection, self._counts)
            try:
                _execute(connection, "begin immediate")
                self._local.writes = True
                yield session
                before_commit()
                session.check_not_failed()
                self._commit(connection)
            except BaseException:
                if not roll_back(connection):
                    self._writer = None
                raise
            finally:
                self._local.writes = False

    @contextmanager
    def _hold_write_lock(self) -> Iterator[float]:
        """Hold the write lock of this process; yields the time until which to wait for other processes."""
        until = monotonic() + port.LOCK_SECONDS
        if not self._lock.acquire(timeout=port.LOCK_SECONDS):
            raise errors.StoreBusy(port.LOCKED_TOO_LONG)
        try:
            yield until
        finally:
            self._lock.release()

    def in_transaction(self) -> bool:
        reader = getattr(self._local, "reader", None)
        return getattr(self._local, "writes", False) or (reader is not None and reader.connection.in_transaction)

    def _commit(self, connection: apsw.Connection) -> None:
        try:
            connection.execute("commit")
        except apsw.Error as error:
            if isinstance(error, apsw.IOError):
                overwrite_failed_commit(connection)
            raise translate_error(error) from error

    def _current(self, opened: OpenConnection | None, mode: str) -> OpenConnection:
        """Return a connection to the file that is now at our path; reconnect if it was replaced."""
        if self._pid != os.getpid():
            raise errors.StoreError("The store was opened before a fork: open it again in the child process.")
        file = self._file_id()
        if opened is not None and opened.file != file:
            opened.connection.close(True)
            self._binary_index = cache(BinaryIndex)
            self._prepare()
        elif opened is not None:
            return opened
        return OpenConnection(self._connect(mode), file)

    def _connect(self, mode: str) -> apsw.Connection:
        connection = connect(self._file, self._vfs)
        with translate_errors():
            connection.execute(f"pragma {mode}")
        with self._connections_lock:
            self._connections.add(connection)
        return connection

    def signing_key(self, session: Session) -> bytes | None:
        try:
            status = os.stat(self.path + ".key")
            now = (status.st_ino, status.st_mtime_ns, status.st_size)
            if now != self._key_seen:
                self._key, self._key_seen = self.sidecar_path("key").read_bytes(), now
        except FileNotFoundError:
            return None
        except OSError as error:
            raise translate_error(error) from error
        return self._key

    def lacks_key(self) -> bool:
        return not os.path.lexists(self.path + ".key")

    def public_key(self, session: Session) -> bytes | None:
        key = self.signing_key(session)
        return None if key is None else public_key_of(key)

    def make_signing_key(self, session: Session, key: bytes) -> None:
        fresh = self._file.with_name(f"{self._file.name}.key.{os.getpid()}")
        try:
            with os.fdopen(os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
                file.write(key)
                file.flush()
                os.fsync(file.fileno())
            fresh.rename(self.sidecar_path("key"))
            sync_folder(fresh.parent)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise translate_error(error) from error

    def identity(self) -> str:
        device, inode = self._file_id()
        return f"{_machine()}:{device}:{inode}"

    def _file_id(self) -> tuple[int, int]:
        """Return device and inode of the file that is now at our path."""
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise translate_error(error) from error
        return status.st_dev, status.st_ino

    def sidecar_path(self, what: str) -> Path:
        return self._file.with_name(f"{self._file.name}.{what}")

    def size(self) -> int:
        return sum(f.stat().st_size for f in (self._file, Path(f"{self._file}-wal")) if f.exists())

    def wait_for_commit(self, seconds: float) -> bool:
        """Poll the data version, which is cheap: it is in shared memory."""
        until = monotonic() + seconds
        while True:
            self._local.reader = self._current(getattr(self._local, "reader", None), "query_only=on")
            with translate_errors():
                ((version,),) = self._local.reader.connection.execute("pragma data_version").fetchall()
            seen = (self._local.reader, version)
            before, self._local.seen = getattr(self._local, "seen", None), seen
            left = until - monotonic()
            if seen != before or left <= 0:
                return seen != before
            sleep(min(left, POLL_SECONDS))

    def snapshot(self, to: Path) -> None:
        with translate_errors(), closing(connect(self._file, self._vfs)) as connection:
            copy_into(connection, to)

    def replace(self, by: Path, prepare: Callable[[], None]) -> None:
        with (
            self._hold_write_lock(),
            translate_errors(),
            closing(connect(by, "")) as source,
            closing(connect(self._file, self._vfs)) as target,
            target.backup("main", source, "main") as copy,
        ):
            # The first step takes and keeps the write lock; the last one commits all pages in one transaction.
            copy_step(copy, 0)
            prepare()
            copy_step(copy, -1)

    def faults(self) -> list[Fault]:
        # With a new connection: FTS5 reports corruption if an older one has cached a previous index.
        try:
            with closing(connect(self._file, self._vfs)) as fresh:
                session = SqliteSession(fresh)
                found = [_fault(text) for (text,) in session.rows("engine_integrity") if text != "ok"]
                nowhere = session.rows("engine_foreign_keys")
                altered = _find_altered(fresh)
            found += [
                Fault("storage", f"a row of {table} references a missing row of {to}") for table, _, to, _ in nowhere
            ]
            found += [Fault("storage", f"the {name} differs from this version's schema") for name in altered]
        except errors.StoreDamaged as error:
            return [Fault("storage", error.message)]
        return found + self._text_faults()

    def facts(self) -> dict[str, Any]:
        import shutil  # loads bz2 and lzma; only statistics need it

        size = self.size()
        return {
            "path": self.path,
            "bytes": size,
            "log_bytes": size - self._file.stat().st_size,
            "free_bytes": shutil.disk_usage(self._file.parent).free,
        }

    def private_files(self) -> list[Path]:
        return [self._file, self.sidecar_path("key")]

    def _text_faults(self) -> list[Fault]:
        """Check the full-text index in a private copy: FTS5 checks it by an insert, which would lock the store."""
        with translate_errors(), closing(apsw.Connection("")) as apart:
            with closing(connect(self._file, self._vfs)) as source, apart.backup("main", source, "main") as copy:
                copy_step(copy, -1)
            try:
                SqliteSession(apart).do("engine_text_integrity")
            except errors.StoreError as error:
                return [Fault("full_text", f"the full-text index differs from the rows ({error.__cause__})")]
        return []

    def close(self) -> None:
        if self._pid != os.getpid():
            return  # the connections belong to the parent
        with self._lock, self._connections_lock:
            for connection in self._connections:
                # A connection in use by another thread is closed when that thread releases it.
                with suppress(apsw.ThreadingViolationError):
                    connection.close(True)
            self._connections.clear()
            self._writer = None
            self._local = threading.local()


def _find_altered(connection: apsw.Connection) -> list[str]:
    """Find tables, indexes, views and triggers that differ from this version's, or were added."""
    with closing(open_database(":memory:")) as made:
        schema.create_tables(made, migrations.load_migrations(*FOLDERS))
        differing = _read_schema(made) ^ _read_schema(connection)
    return sorted({f"{kind} {name}" for kind, name, _ in differing})


def _read_schema(connection: apsw.Connection) -> set[tuple[Any, ...]]:
    return set(connection.execute("select type, name, sql from sqlite_schema where name not like 'sqlite_stat%'"))


@cache
def _machine() -> str:
    for name in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            return Path(name).read_text().strip()[:32]
        except OSError:
            continue
    return os.uname().nodename if hasattr(os, "uname") else "machine"


def _execute(connection: apsw.Connection, sql: str) -> None:
    try:
        connection.execute(sql)
    except _FAILED as error:
        raise translate_error(error) from error


def roll_back(connection: apsw.Connection) -> bool:
    """Roll back an open transaction; return False and close the connection if that fails."""
    try:
        if connection.in_transaction:
            connection.execute("rollback")
    except apsw.Error:
        connection.close(True)
        return False
    return True


def overwrite_failed_commit(connection: apsw.Connection) -> None:
    """Overwrite a transaction whose sync failed with an empty one.

    It is complete in the WAL and only not synced: the next process to recover the WAL would apply a change that was
    reported as failed. If this write fails too, the next transaction overwrites it.
    """
    try:
        version = connection.pragma("user_version")
        connection.execute(f"begin immediate; pragma user_version={version}; commit").fetchall()
    except apsw.Error:
        roll_back(connection)


def _fault(text: str) -> Fault:
    """Build a fault from a finding of the integrity check, which includes the full-text index."""
    return Fault("full_text" if "FTS5" in text else "storage", text)
