"""Opening a store in a database: ours, whole, and of this release."""

import re

from psycopg import errors as refusals
from psycopg import sql

from holdfast.kernel import errors
from holdfast.kernel.journal import journal, signer
from holdfast.kernel.storage import data_migrations as filling
from holdfast.kernel.storage import migrations as migrate
from holdfast.kernel.storage.postgres.address import Address
from holdfast.kernel.storage.postgres.driver_errors import translated
from holdfast.kernel.storage.postgres.engine import ADAPTERS, FOLDERS, PostgresSession, connect
from holdfast.kernel.storage.postgres.pool import Connection
from holdfast.kernel.storage.postgres.store import About, PostgresStore
from holdfast.kernel.storage.postgres.vectors import VectorLoader, WholeVectorLoader
from holdfast.kernel.timestamps import now

OLDEST = 14
MARK = "A memory of Holdfast."
"""The comment on the table of migrations, by which a store is known."""
UNFINISHED = "A memory of Holdfast, being moved here: "
"""How that comment begins in a store that is being filled; the rest is the move's own."""


def open_store(address: Address, *, make: bool = True) -> PostgresStore:
    """The store at this address; if its schema is empty one is made, or nothing is.

    Any number of servers may do this at once.
    """
    with translated(), connect(address) as connection:
        if not make and found_mark(connection, address) is None:
            raise errors.StoreNotFound(f"There is no store at {address.shown}.")
        address = usable(connection, address)
        with connection.transaction():
            connection.execute(address.path_setting)
            if not current(connection, address):
                bring_up(connection, address)
            about = about_of(connection, address)
    return PostgresStore(address, about)


def usable(connection: Connection, address: Address) -> Address:
    """The address with the schema of pgvector's types; a database that cannot be used is refused."""
    version = connection.info.server_version // 10_000
    if version < OLDEST:
        raise errors.StoreUnreachable(f"This is PostgreSQL {version}: {OLDEST} or later is needed.")
    ((encoding,),) = connection.execute("show server_encoding").fetchall()
    if encoding != "UTF8":
        raise errors.StoreUnreachable(f"The database is encoded in {encoding}: make one with `encoding 'UTF8'`.")
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(hashtext('holdfast'))")
        row = found_vector(connection)
        if row is None:
            add_vector(connection)
            row = found_vector(connection)
    assert row is not None
    schema, vector_type = row
    must_be_apart(address, schema)
    for loader in (VectorLoader, WholeVectorLoader):
        ADAPTERS.register_loader(vector_type, loader)
    return address._replace(vector_schema=schema)


def must_be_apart(address: Address, vector_schema: str) -> None:
    """No store is where pgvector is: every other store looks there too, for types, and would find its tables."""
    if address.schema == vector_schema:
        raise errors.Misconfigured(
            f"The schema {address.schema} is where this database has pgvector: "
            "name one of the memory's own, `?schema=NAME`."
        )


def found_vector(connection: Connection) -> tuple[str, int] | None:
    """The schema and the number of pgvector's type."""
    return connection.execute(
        """select n.nspname, t.oid from pg_extension e join pg_namespace n on n.oid = e.extnamespace
           join pg_type t on t.typnamespace = n.oid and t.typname = 'vector' where e.extname = 'vector'"""
    ).fetchone()


def add_vector(connection: Connection) -> None:
    try:
        with connection.transaction():
            connection.execute("create extension vector")
    except (refusals.UndefinedFile, refusals.FeatureNotSupported):
        raise errors.StoreUnreachable(
            "The database server has no pgvector: install it there (Debian: postgresql-NN-pgvector; "
            "others: github.com/pgvector/pgvector), then run `create extension vector` in this database."
        ) from None
    except refusals.InsufficientPrivilege:
        raise errors.StoreUnreachable(
            "pgvector is not switched on in this database, and this user may not do it: "
            "run `create extension vector` there as a superuser."
        ) from None


def found_mark(connection: Connection, address: Address) -> str | None:
    """By what the schema is known; None if nothing is in it. What another program keeps there is refused untouched."""
    there, mark = connection.execute(
        """select (select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace
                   where n.nspname = %(schema)s and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')),
                  obj_description(to_regclass(%(table)s), 'pg_class')""",
        {"schema": address.schema, "table": f'"{address.schema}".migration'},
    ).fetchall()[0]
    if not there:
        return None
    if mark != MARK and not str(mark).startswith(UNFINISHED):
        raise errors.NotAStore(
            f"The schema {address.schema} of this database belongs to another program; it was left as it is. "
            "Name another one: `?schema=NAME` at the end of the address."
        )
    return str(mark)


def current(connection: Connection, address: Address) -> bool:
    """Whether the store is ours and complete."""
    mark = found_mark(connection, address)
    if mark is None:
        return False
    if mark != MARK:
        raise errors.NotAStore(f"A move to {address.shown} was not finished: run it again.")
    return not migrate.pending(recorded(connection), migrate.known(*FOLDERS))


def recorded(connection: Connection) -> dict[int, str]:
    return dict(PostgresSession(connection).rows("migration_list"))


def bring_up(connection: Connection, address: Address) -> None:
    """Apply what is missing, all of it or nothing. Whoever comes second finds it done."""
    connection.execute("select pg_advisory_xact_lock(hashtext(%s))", (f"holdfast {address.schema}",))
    if current(connection, address):
        return
    build(connection, address, MARK)
    session = PostgresSession(connection)
    if session.row("chain_head") is None:
        key = signer.new_key()
        session.do("node_key_put", key=key)
        journal.begin(session, journal.Owner(about_of(connection, address).identity, key))


def build(connection: Connection, address: Address, mark: str) -> None:
    """The tables of this release, made or brought up to it; new ones under a mark."""
    session = PostgresSession(connection)
    try:
        # A schema that is there may belong to somebody who may make no other: `if not exists` would refuse them.
        if connection.execute("select 1 from pg_namespace where nspname = %s", (address.schema,)).fetchone() is None:
            connection.execute(sql.SQL("create schema {}").format(sql.Identifier(address.schema)))
        # Not by its bare name: the schema of pgvector's types may have a table that is called so too.
        fresh = found_mark(connection, address) is None
        if fresh:
            connection.execute(migrate.portable(migrate.TABLE + ";"))
            connection.execute(sql.SQL("comment on table migration is {}").format(mark))
        for migration in migrate.pending({} if fresh else recorded(connection), migrate.known(*FOLDERS)):
            apply(session, connection, migration)
    except refusals.InsufficientPrivilege:
        raise errors.StoreUnreachable(
            "The tables of the store have to be made or brought up to this release, and this user may not do it: "
            "open it once as the owner of the schema."
        ) from None


def apply(session: PostgresSession, connection: Connection, migration: migrate.Migration) -> None:
    connection.execute(migrate.portable(migration.script), prepare=False)
    filling.after(migration.number, session)
    session.do(
        "migration_add", number=migration.number, name=migration.name, checksum=migration.checksum, applied_at=now()
    )


def about_of(connection: Connection, address: Address) -> About:
    """Which copy of which store this is."""
    ((cluster, database, schema, chain, timeline, title),) = PostgresSession(connection).rows(
        "engine_place", schema=f'"{address.schema}"'
    )
    name = f"{re.sub('[^A-Za-z0-9_]+', '_', title)}.{address.schema}-{cluster}-{database}-{schema}"
    return About(f"postgresql:{cluster}:{database}:{schema}", timeline, f"holdfast_{chain}", name)
