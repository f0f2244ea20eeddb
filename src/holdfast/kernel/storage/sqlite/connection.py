"""Open SQLite files: connections with our settings, driver errors translated, copies."""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from struct import pack
from time import sleep
from typing import Any

import apsw

from holdfast.kernel import errors
from holdfast.kernel.vector import signs_of

MAX_WAL_BYTES = 16 << 20
CACHE_KB = 32_000
"""Page cache per connection: enough for most of ten thousand memories and their vectors."""

_ERROR_MAP: tuple[tuple[type[apsw.Error], type[errors.StoreError]], ...] = (
    (apsw.FullError, errors.StoreFull),
    (apsw.BusyError, errors.StoreBusy),
    (apsw.LockedError, errors.StoreBusy),
    (apsw.NotADBError, errors.NotAStore),
    (apsw.CorruptError, errors.StoreDamaged),
    (apsw.CantOpenError, errors.StoreUnreachable),
    (apsw.ReadOnlyError, errors.StoreUnreachable),
    (apsw.PermissionsError, errors.StoreUnreachable),
    (apsw.AuthError, errors.StoreUnreachable),
)
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate every error of the driver or the system inside the block."""
    try:
        yield
    except (apsw.Error, OSError, UnicodeDecodeError) as error:
        raise translate_error(error) from error


def translate_error(error: Exception) -> errors.StoreError:
    """Translate an error of the driver or the system."""
    match error:
        case OSError():
            ours: type[errors.StoreError] = errors.StoreFull if error.errno in _NO_SPACE else errors.StoreUnreachable
        case UnicodeDecodeError():
            ours = errors.StoreDamaged
        case _:
            ours = next((ours for theirs, ours in _ERROR_MAP if isinstance(error, theirs)), errors.StoreError)
    return ours(f"{(ours.__doc__ or '').strip()} ({error})")


def wait_for_lock(tries: int) -> bool:
    """Busy handler: short random waits for at least half a minute, so that newcomers do not overtake."""
    sleep(0.0005 + os.urandom(1)[0] * 0.002 / 255)
    return tries < 20_000


def open_database(name: str, vfs: str = "") -> apsw.Connection:
    """Open a connection with the functions that our triggers call."""
    connection = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs or None)
    connection.create_scalar_function("signs_of", lambda *given: signs_of(*given), 1, deterministic=True)
    connection.create_aggregate_function("signs_packed", _pack_aggregate, 3)
    return connection


def _pack_block(rows: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Encode numbers, rows and bits of a block as one value."""
    ordered = sorted(rows)
    numbers = [*(number for number, _, _ in ordered), *(row for _, row, _ in ordered)]
    return pack(f"<{len(numbers)}q", *numbers) + b"".join(signs for _, _, signs in ordered)


def _pack_aggregate() -> tuple[list[Any], Callable[..., None], Callable[[list[Any]], bytes]]:
    return [], lambda found, *one: found.append(one), _pack_block


def connect(file: Path, vfs: str) -> apsw.Connection:
    """Open a connection with our settings. The file exists, readable only by its owner."""
    with translate_errors():
        connection = open_database(str(file), vfs)
        try:
            connection.set_busy_handler(wait_for_lock)
            connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
            connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
            # Otherwise statements are replanned for other values of limits and bounds.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            enable_wal(connection)
            connection.execute(f"pragma synchronous=full; pragma foreign_keys=on; pragma cache_size=-{CACHE_KB}")
            # Deleted content is overwritten, and a WAL that grew during a long read shrinks again.
            connection.execute(f"pragma secure_delete=on; pragma journal_size_limit={MAX_WAL_BYTES}").fetchall()
        except BaseException:
            connection.close(True)
            raise
        return connection


def enable_wal(connection: apsw.Connection) -> None:
    """Enable WAL. Retries 'locked', which occurs in spite of the busy handler when two processes open a new file."""
    for tries in count():
        try:
            ((mode,),) = connection.execute("pragma journal_mode=wal").fetchall()
            break
        except apsw.BusyError:
            if not wait_for_lock(tries):
                raise
    if mode != "wal":
        raise errors.StoreUnreachable("The store's file system does not support WAL: use a local one.")


def copy_into(connection: apsw.Connection, to: Path) -> None:
    """Write a consistent, durable, private copy to a new file; after an error nothing is left."""
    os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        connection.execute("vacuum into ?", (str(to),))
        with open(to, "rb") as file:
            os.fsync(file.fileno())
        sync_folder(to.parent)
    except BaseException:
        to.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that a new file name in it is durable."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def copy_step(copy: apsw.Backup, pages: int) -> None:
    """Copy some pages; retry while another process writes."""
    for tries in count():
        try:
            copy.step(pages)
            return
        except (apsw.BusyError, apsw.LockedError):
            if not wait_for_lock(tries):
                raise
