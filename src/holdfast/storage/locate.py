"""Which engine a store's address means."""

import os
import sys
from pathlib import Path

from ..domain.errors import Misconfigured
from .port import Store


def default_path() -> Path:
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
    return base / "holdfast" / "holdfast.db"


def open_store(address: str | None) -> Store:
    """The store at a path or URL; without one, the user's own."""
    if address is None:
        try:
            path = default_path()
        except RuntimeError:
            raise Misconfigured("There is no home directory: name a store with --db or HOLDFAST_DB.") from None
    elif "://" in address and not address.startswith("sqlite://"):
        raise Misconfigured(f"{address.split('://', 1)[0]}: this release keeps a memory in a SQLite file only.")
    elif not address or any(letter == "\x00" or "\ud800" <= letter <= "\udfff" for letter in address):
        raise Misconfigured("The store's path is empty, or holds what no path in Unicode does.")
    else:
        path = Path(address.removeprefix("sqlite://")).expanduser()

    from .sqlite.opening import open_store as open_sqlite

    return open_sqlite(path.absolute())


def open_copy(path: Path) -> Store:
    """The store in a snapshot, brought up to this release; a file that is none is refused."""
    from .sqlite.opening import open_copy as open_sqlite_copy

    return open_sqlite_copy(path.absolute())
