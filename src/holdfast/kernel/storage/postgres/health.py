"""Health of a store in PostgreSQL: schema, full text and server."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql

from holdfast.kernel.storage import migrations
from holdfast.kernel.storage.port import Fault, SearchTexts
from holdfast.kernel.storage.postgres.address import Address
from holdfast.kernel.storage.postgres.driver_errors import translate_errors
from holdfast.kernel.storage.postgres.engine import FOLDERS, PostgresSession, connect
from holdfast.kernel.storage.postgres.full_text import to_tsvector
from holdfast.kernel.storage.postgres.pool import Connection

PAGE_SIZE = 500
SCRATCH = "holdfast_as_it_should_be"


def faults(address: Address) -> list[Fault]:
    """Find tables that differ from this version's, and memories whose full-text index is wrong."""
    with translate_errors(), connect(address) as connection:
        return [*find_altered(connection, address), *_text_faults(connection, address)]


def find_altered(connection: Connection, address: Address) -> Iterator[Fault]:
    """Find differences from a scratch schema built by the migrations, which is rolled back."""
    # Skipped on a replica, or if the user cannot create a schema.
    refused = (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)
    with suppress(*refused), connection.transaction(force_rollback=True):
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(SCRATCH)))
        connection.execute(address._replace(schema=SCRATCH).path_setting)
        connection.execute(migrations.to_postgres(migrations.TABLE + ";"))
        for migration in migrations.load_migrations(*FOLDERS):
            connection.execute(migrations.to_postgres(migration.script), prepare=False)
        for name in sorted(_catalog(connection, SCRATCH) ^ _catalog(connection, address.schema)):
            yield Fault("storage", f"the {name[0]} differs from this version's schema")


def _catalog(connection: Connection, schema: str) -> set[tuple[str, str]]:
    """Return the definitions of all columns, constraints, indexes, triggers and functions of a schema."""
    rows = PostgresSession(connection).rows("engine_catalog", schema=schema)
    return {(str(name), str(made).replace(f"{schema}.", "")) for name, made in rows}


def _text_faults(connection: Connection, address: Address) -> Iterator[Fault]:
    with connection.transaction(force_rollback=True):
        connection.execute("set transaction isolation level repeatable read, read only")
        connection.execute(address.path_setting)
        session = PostgresSession(connection)
        after = 0
        while page := session.rows("engine_texts", after=after, limit=PAGE_SIZE):
            expected = {rowno: to_tsvector(SearchTexts(*texts)) for rowno, _, *texts in page}
            ids = {rowno: id for rowno, id, *_ in page}
            differing = session.rows("engine_text_differs", rows=list(expected), words=list(expected.values()))
            for (rowno,) in differing:
                yield Fault("full_text", f"the memory {ids[rowno]} is indexed incorrectly")
            after = page[-1][0]
        for (rowno,) in session.rows("engine_text_orphans"):
            yield Fault("full_text", f"the index still has words of row {rowno}, which is deleted")


def facts(session: PostgresSession, address: Address) -> dict[str, Any]:
    """Return facts about the store and its server."""
    ((version, vector, replica, fsync, used, most, size, compares),) = session.rows("engine_facts")
    return {
        "path": address.display,
        "schema": address.schema,
        "bytes": size,
        "server": version,
        "pgvector": vector,
        "replica": bool(replica),
        "fsync": fsync == "on",
        "connections": used,
        "most_connections": int(most),
        "tables_compared": bool(compares),
    }
