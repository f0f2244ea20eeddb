"""Open a store in PostgreSQL: check that it is ours and complete, and migrate it."""

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
"""Comment on the migration table that identifies a store."""
UNFINISHED = "A memory of Holdfast, being moved here: "
"""Prefix of that comment while a store is being filled; the rest identifies the copy."""


def open_store(address: Address, *, make: bool = True) -> PostgresStore:
    """Open the store at an address; create it in an empty schema, all or nothing.

    Safe to run on several servers at once.
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
    """Check the database and return the address with the schema of pgvector's types."""
    version = connection.info.server_version // 10_000
    if version < OLDEST:
        raise errors.StoreUnreachable(f"PostgreSQL {version} is not supported: {OLDEST} or later is required.")
    ((encoding,),) = connection.execute("show server_encoding").fetchall()
    if encoding != "UTF8":
        raise errors.StoreUnreachable(f"The database has the encoding {encoding}: create one with `encoding 'UTF8'`.")
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
    """Raise if the store's schema is pgvector's: other stores search it for types and would find the tables."""
    if address.schema == vector_schema:
        raise errors.Misconfigured(
            f"The schema {address.schema} contains pgvector: use a schema of its own for the store, `?schema=NAME`."
        )


def found_vector(connection: Connection) -> tuple[str, int] | None:
    """Return schema and oid of pgvector's type."""
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
            "pgvector is not enabled in this database, and this user cannot enable it: "
            "run `create extension vector` there as a superuser."
        ) from None


def found_mark(connection: Connection, address: Address) -> str | None:
    """Return the mark of a schema, None if it is empty; raises NotAStore if it belongs to another program."""
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
            f"The schema {address.schema} of this database belongs to another program; it was not changed. "
            "Use another one: `?schema=NAME` at the end of the address."
        )
    return str(mark)


def current(connection: Connection, address: Address) -> bool:
    """Whether the schema has a complete store of this version."""
    mark = found_mark(connection, address)
    if mark is None:
        return False
    if mark != MARK:
        raise errors.NotAStore(f"The migration to {address.shown} was not finished: run it again.")
    return not migrate.pending(recorded(connection), migrate.known(*FOLDERS))


def recorded(connection: Connection) -> dict[int, str]:
    return dict(PostgresSession(connection).rows("migration_list"))


def bring_up(connection: Connection, address: Address) -> None:
    """Apply missing migrations, all or nothing, once among concurrent processes."""
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
    """Create or migrate the tables; new ones get the mark."""
    session = PostgresSession(connection)
    try:
        # `if not exists` would fail for a user that owns the schema but cannot create schemas.
        if connection.execute("select 1 from pg_namespace where nspname = %s", (address.schema,)).fetchone() is None:
            connection.execute(sql.SQL("create schema {}").format(sql.Identifier(address.schema)))
        # By its qualified name: pgvector's schema may have a table with this name too.
        fresh = found_mark(connection, address) is None
        if fresh:
            connection.execute(migrate.portable(migrate.TABLE + ";"))
            connection.execute(sql.SQL("comment on table migration is {}").format(mark))
        for migration in migrate.pending({} if fresh else recorded(connection), migrate.known(*FOLDERS)):
            apply(session, connection, migration)
    except refusals.InsufficientPrivilege:
        raise errors.StoreUnreachable(
            "The store's tables must be created or migrated, and this user has no right to do it: "
            "open the store once as the owner of the schema."
        ) from None


def apply(session: PostgresSession, connection: Connection, migration: migrate.Migration) -> None:
    connection.execute(migrate.portable(migration.script), prepare=False)
    filling.after(migration.number, session)
    session.do(
        "migration_add", number=migration.number, name=migration.name, checksum=migration.checksum, applied_at=now()
    )


def about_of(connection: Connection, address: Address) -> About:
    """Read the identity of the store and of this copy."""
    ((cluster, database, schema, chain, timeline, title),) = PostgresSession(connection).rows(
        "engine_place", schema=f'"{address.schema}"'
    )
    name = f"{re.sub('[^A-Za-z0-9_]+', '_', title)}.{address.schema}-{cluster}-{database}-{schema}"
    return About(f"postgresql:{cluster}:{database}:{schema}", timeline, f"holdfast_{chain}", name)
