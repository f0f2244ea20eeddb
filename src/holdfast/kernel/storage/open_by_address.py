"""Open a store by its address, a path or a URL, with the right engine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.kernel.errors import InvalidSetting
from holdfast.kernel.storage.port import Store

if TYPE_CHECKING:
    from holdfast.kernel.storage.copy_tables import CopyDestination, Table

_DATABASE = re.compile(
    r"\s*(jdbc:)?postgres(ql)?(\+\w+)?(:|//)"
    r"|(?=\s*\w+\s*=)(.*\s)?(host|hostaddr|dbname|password|service)\s*=",
    re.IGNORECASE | re.DOTALL,
)
"""Matches attempts at a database address: a URL, valid or not, or libpq keywords."""


def data_folder() -> Path:
    """Return the platform's folder for user data."""
    if os.environ.get("HOME") == "":
        raise RuntimeError("HOME is empty")  # else Path.home() is the root directory
    home = Path.home()
    if sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    elif os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return base / "holdfast"


def open_store(address: str | None) -> Store:
    """Open the store at a path or URL, by default the user's own; create it if missing."""
    return _open(address, make=True)


def open_existing(address: str | None) -> Store:
    """Open the store at a path or URL; raises StoreNotFound if there is none."""
    return _open(address, make=False)


def _open(address: str | None, *, make: bool) -> Store:
    file = _sqlite_path(address)
    return _postgres(address or "", make=make) if file is None else _sqlite(file, make=make)


def destination_at(address: str | None) -> CopyDestination:
    """Return a path or URL as the destination of a copy."""
    file = _sqlite_path(address)
    if file is not None:
        from holdfast.kernel.storage.sqlite.copy_store import SqliteDestination

        return SqliteDestination(file.absolute())
    with _require_psycopg():
        from holdfast.kernel.storage.postgres.address import parse_address
        from holdfast.kernel.storage.postgres.copy_store import PostgresDestination
    return PostgresDestination(parse_address(address or "", _data_folder()))


def tables() -> Sequence[Table]:
    """Return all tables of a store, the same for every engine."""
    from holdfast.kernel.storage.sqlite.copy_store import tables as sqlite_tables

    return sqlite_tables()


class LazyStore:
    """An existing store, opened on first use."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._store: Store | None = None

    def __getattr__(self, name: str) -> Any:
        if self._store is None:
            self._store = open_existing(self._address)
        return getattr(self._store, name)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


def _sqlite_path(address: str | None) -> Path | None:
    """Return the file of an address; None for a database."""
    if address is None:
        return _data_folder() / "holdfast.db"
    if not address or any(letter == "\x00" or "\ud800" <= letter <= "\udfff" for letter in address):
        raise InvalidSetting("The store's path is empty or contains invalid characters.")
    if address.startswith(("postgresql://", "postgres://")):
        return None
    if _DATABASE.match(address):
        # Never repeat it: it may contain a password.
        raise InvalidSetting(
            "This looks like a database address: write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE. "
            "If it is a file name, put ./ before it."
        )
    path = address.removeprefix("sqlite://")
    if path == address and "://" in address:
        raise InvalidSetting("A store is a SQLite file, given by its path, or a database at postgresql://...")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InvalidSetting("The path starts with the home directory of an unknown user.") from None


def _data_folder() -> Path:
    try:
        return data_folder()
    except RuntimeError:
        raise InvalidSetting("There is no home directory: set --db or HOLDFAST_DB.") from None


def _sqlite(path: Path, *, make: bool) -> Store:
    from holdfast.kernel.storage.sqlite.open_store import open_store as open_sqlite

    return open_sqlite(path.absolute(), make=make)


def _postgres(url: str, *, make: bool) -> Store:
    with _require_psycopg():
        from holdfast.kernel.storage.postgres.address import parse_address
        from holdfast.kernel.storage.postgres.open_store import open_store as open_postgres
    return open_postgres(parse_address(url, _data_folder()), make=make)


@contextmanager
def _require_psycopg() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidSetting(
            f"A store in PostgreSQL needs {error.name}: install it with `pip install 'holdfast[postgres]'`."
        ) from None


def open_copy(path: Path) -> Store:
    """Open a snapshot as a store and migrate it to this version; other files are rejected."""
    from holdfast.kernel.storage.sqlite.open_store import open_copy as open_sqlite_copy

    return open_sqlite_copy(path.absolute())
