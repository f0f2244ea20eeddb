"""Which engine a store's address means."""

import os
import sys
from pathlib import Path

from ..domain.errors import Misconfigured
from .port import Store


def data_folder() -> Path:
    """Where the platform keeps a user's data."""
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
    """The store at a path or URL; without one, the user's own."""
    if address is None:
        return _sqlite(_data() / "holdfast.db")
    if not address or any(letter == "\x00" or "\ud800" <= letter <= "\udfff" for letter in address):
        raise Misconfigured("The store's path is empty, or holds what no path in Unicode does.")
    scheme, there, _ = address.partition("://")
    if not there or scheme == "sqlite":
        return _sqlite(Path(address.removeprefix("sqlite://")).expanduser())
    if scheme in ("postgresql", "postgres"):
        return _postgres(address)
    raise Misconfigured(f"{scheme}: a memory is kept in a SQLite file or in a database at postgresql://...")


def _data() -> Path:
    try:
        return data_folder()
    except RuntimeError:
        raise Misconfigured("There is no home directory: name a store with --db or HOLDFAST_DB.") from None


def _sqlite(path: Path) -> Store:
    from .sqlite.opening import open_store as open_sqlite

    return open_sqlite(path.absolute())


def _postgres(url: str) -> Store:
    try:
        from .postgres.address import address_of
        from .postgres.opening import open_store as open_postgres
    except ModuleNotFoundError as error:
        raise Misconfigured(
            f"A memory in PostgreSQL needs {error.name}: install it with `pip install 'holdfast[postgres]'`."
        ) from None
    return open_postgres(address_of(url, _data()))


def open_copy(path: Path) -> Store:
    """The store in a snapshot, brought up to this release; a file that is none is refused."""
    from .sqlite.opening import open_copy as open_sqlite_copy

    return open_sqlite_copy(path.absolute())
