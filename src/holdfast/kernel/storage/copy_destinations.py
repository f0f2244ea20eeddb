"""Where a store can be copied to, by its address, with the right engine."""

from collections.abc import Sequence

from holdfast.kernel.storage.copy_tables import CopyDestination, Table
from holdfast.kernel.storage.open_by_address import require_psycopg, sqlite_path, user_folder
from holdfast.kernel.storage.sqlite import copy_store as sqlite


def destination_at(path_or_url: str | None) -> CopyDestination:
    """Return a path or URL as the destination of a copy."""
    file = sqlite_path(path_or_url)
    if file is not None:
        return sqlite.SqliteDestination(file.absolute())
    with require_psycopg():
        from holdfast.kernel.storage.postgres import address, copy_store  # psycopg is optional
    return copy_store.PostgresDestination(address.parse_address(path_or_url or "", user_folder()))


def tables() -> Sequence[Table]:
    """Return all tables of a store, the same for every engine."""
    return sqlite.tables()
