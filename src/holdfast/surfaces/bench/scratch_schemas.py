"""Schemas for measured stores in a database of somebody's, dropped afterwards."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from holdfast import app

STORES = ("ours", "bare", "sample")


class Database(NamedTuple):
    """A server, and the beginning of the names of the schemas that are ours in it."""

    url: str
    mark: str

    def store(self, name: str) -> str:
        """The address of one of the stores."""
        parts = urlsplit(self.url)
        asked = dict(parse_qsl(parts.query)) | {"schema": f"{self.mark}_{name}"}
        return urlunsplit(parts._replace(query=urlencode(asked)))


@contextmanager
def scratch_schemas(url: str) -> Iterator[Database]:
    """Names for schemas that nobody else uses; whichever of them exist at the end are dropped."""
    given = Database(url, f"bench_{os.urandom(4).hex()}")
    app.open(given.store("ours")).close()  # before anything is measured: says what is wrong with the address
    try:
        yield given
    finally:
        drop(given)


def drop(given: Database) -> None:
    # psycopg is an optional dependency: opening the store has said so if it is missing.
    from holdfast.kernel.storage.postgres.address import address_of
    from holdfast.kernel.storage.postgres.pool import Connection

    with Connection.connect(address_of(given.url, Path()).conninfo, autocommit=True) as connection:
        for name in STORES:
            connection.execute(f"drop schema if exists {given.mark}_{name} cascade")
