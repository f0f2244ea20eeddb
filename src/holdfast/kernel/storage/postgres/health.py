"""What can be wrong with a store in a database: its schema, its full text, the server it is on."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql

from holdfast.kernel.storage import migrations as migrate
from holdfast.kernel.storage.port import Fault, Texts
from holdfast.kernel.storage.postgres.address import Address
from holdfast.kernel.storage.postgres.driver_errors import translated
from holdfast.kernel.storage.postgres.engine import FOLDERS, PostgresSession, connect
from holdfast.kernel.storage.postgres.full_text import vector_of
from holdfast.kernel.storage.postgres.pool import Connection

PAGE = 500
SCRATCH = "holdfast_as_it_should_be"


def faults(address: Address) -> list[Fault]:
    """Every table that is not as this release makes it, and every memory that is not found by its words."""
    with translated(), connect(address) as connection:
        return [*altered(connection, address), *_text_faults(connection, address)]


def altered(connection: Connection, address: Address) -> Iterator[Fault]:
    """What differs from what the migrations make; made once more beside it, and taken back."""
    # A user that may not make a schema, or a replica, leaves this to the owner.
    refused = (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)
    with suppress(*refused), connection.transaction(force_rollback=True):
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(SCRATCH)))
        connection.execute(address._replace(schema=SCRATCH).path_setting)
        connection.execute(migrate.portable(migrate.TABLE + ";"))
        for migration in migrate.known(*FOLDERS):
            connection.execute(migrate.portable(migration.script), prepare=False)
        for name in sorted(_catalog(connection, SCRATCH) ^ _catalog(connection, address.schema)):
            yield Fault("storage", f"the {name[0]} is not as this release makes it")


def _catalog(connection: Connection, schema: str) -> set[tuple[str, str]]:
    """Every column, constraint, index, trigger and function of a schema, and how it is defined."""
    rows = PostgresSession(connection).rows("engine_catalog", schema=schema)
    return {(str(name), str(made).replace(f"{schema}.", "")) for name, made in rows}


def _text_faults(connection: Connection, address: Address) -> Iterator[Fault]:
    with connection.transaction(force_rollback=True):
        connection.execute("set transaction isolation level repeatable read, read only")
        connection.execute(address.path_setting)
        session = PostgresSession(connection)
        after = 0
        while page := session.rows("engine_texts", after=after, limit=PAGE):
            expected = {rowno: vector_of(Texts(*texts)) for rowno, _, *texts in page}
            ids = {rowno: id for rowno, id, *_ in page}
            differing = session.rows("engine_text_differs", rows=list(expected), words=list(expected.values()))
            for (rowno,) in differing:
                yield Fault("full_text", f"the memory {ids[rowno]} is not found by its own words")
            after = page[-1][0]
        for (rowno,) in session.rows("engine_text_strays"):
            yield Fault("full_text", f"words are kept of row {rowno}, which is deleted")


def facts(session: PostgresSession, address: Address) -> dict[str, Any]:
    """What is to be known of the server."""
    ((version, vector, replica, fsync, used, most, size, compares),) = session.rows("engine_facts")
    return {
        "path": address.shown,
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
