"""Open a store by its address, a path or a URL, with the right engine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.kernel.errors import InvalidSetting
from holdfast.kernel.storage.port import Store
from holdfast.kernel.storage.sqlite import open_store as sqlite

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
    file = sqlite_path(address)
    return _postgres(address or "", make=make) if file is None else _sqlite(file, make=make)


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


def sqlite_path(address: str | None) -> Path | None:
    """Return the file of an address; None for a database."""
    if address is None:
        return user_folder() / "holdfast.db"
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


def user_folder() -> Path:
    try:
        return data_folder()
    except RuntimeError:
        raise InvalidSetting("There is no home directory: set --db or HOLDFAST_DB.") from None


def _sqlite(path: Path, *, make: bool) -> Store:
    return sqlite.open_store(path.absolute(), make=make)


def _postgres(url: str, *, make: bool) -> Store:
    with require_psycopg():
        from holdfast.kernel.storage.postgres import address, open_store  # psycopg is optional
    return open_store.open_store(address.parse_address(url, user_folder()), make=make)


@contextmanager
def require_psycopg() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidSetting(
            f"A store in PostgreSQL needs {error.name}: install it with `pip install 'holdfast[postgres]'`."
        ) from None


def open_copy(path: Path) -> Store:
    """Open a snapshot as a store and migrate it to this version; other files are rejected."""
    return sqlite.open_copy(path.absolute())
