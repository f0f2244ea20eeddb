"""Temporary schemas for benchmark stores in a user's database, dropped afterwards."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from holdfast import app

STORES = ("ours", "bare", "sample")


class Database(NamedTuple):
    """A database, and the name prefix of our schemas in it."""

    url: str
    mark: str

    def store(self, name: str) -> str:
        """Return the address of a store."""
        parts = urlsplit(self.url)
        asked = dict(parse_qsl(parts.query)) | {"schema": f"{self.mark}_{name}"}
        return urlunsplit(parts._replace(query=urlencode(asked)))


@contextmanager
def scratch_schemas(url: str) -> Iterator[Database]:
    """Provide unused schema names; drop the existing ones at the end."""
    given = Database(url, f"bench_{os.urandom(4).hex()}")
    app.open(given.store("ours")).close()  # fails early if the address is wrong
    try:
        yield given
    finally:
        drop(given)


def drop(given: Database) -> None:
    from holdfast.kernel.storage.postgres.address import parse_address  # psycopg is optional
    from holdfast.kernel.storage.postgres.pool import Connection  # psycopg is optional

    with Connection.connect(parse_address(given.url, Path()).conninfo, autocommit=True) as connection:
        for name in STORES:
            connection.execute(f"drop schema if exists {given.mark}_{name} cascade")
