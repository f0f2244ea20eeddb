"""Open a store in PostgreSQL: check that it is ours and complete, and migrate it."""

import re
from time import time_ns

from psycopg import errors as refusals
from psycopg import sql

from holdfast.kernel import errors
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.journal import new_key
from holdfast.kernel.storage import data_migrations, migrations
from holdfast.kernel.storage.postgres.address import Address
from holdfast.kernel.storage.postgres.driver_errors import translate_errors
from holdfast.kernel.storage.postgres.engine import ADAPTERS, FOLDERS, PostgresSession, connect
from holdfast.kernel.storage.postgres.pool import Connection
from holdfast.kernel.storage.postgres.store import PostgresStore, StoreInfo
from holdfast.kernel.storage.postgres.vectors import VectorLoader, WholeVectorLoader

MIN_SERVER_VERSION = 14
MARK = "A memory of Holdfast."
"""Comment on the migration table that identifies a store."""
UNFINISHED_MARK = "A memory of Holdfast, being moved here: "
"""Prefix of that comment while a store is being filled; the rest identifies the copy."""


def open_store(address: Address, *, make: bool = True) -> PostgresStore:
    """Open the store at an address; create it in an empty schema, all or nothing.

    Safe to run on several servers at once.
    """
    with translate_errors(), connect(address) as connection:
        if not make and find_mark(connection, address) is None:
            raise errors.StoreNotFound(f"There is no store at {address.display}.")
        address = prepare_database(connection, address)
        with connection.transaction():
            connection.execute(address.path_setting)
            if not is_current(connection, address):
                upgrade(connection, address)
            about = get_store_info(connection, address)
    return PostgresStore(address, about)


def prepare_database(connection: Connection, address: Address) -> Address:
    """Check the database and return the address with the schema of pgvector's types."""
    version = connection.info.server_version // 10_000
    if version < MIN_SERVER_VERSION:
        raise errors.StoreUnreachable(
            f"PostgreSQL {version} is not supported: {MIN_SERVER_VERSION} or later is required."
        )
    ((encoding,),) = connection.execute("show server_encoding").fetchall()
    if encoding != "UTF8":
        raise errors.StoreUnreachable(f"The database has the encoding {encoding}: create one with `encoding 'UTF8'`.")
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(hashtext('holdfast'))")
        row = find_vector_type(connection)
        if row is None:
            create_vector_extension(connection)
            row = find_vector_type(connection)
    assert row is not None
    schema, vector_type = row
    check_schemas_differ(address, schema)
    for loader in (VectorLoader, WholeVectorLoader):
        ADAPTERS.register_loader(vector_type, loader)
    return address._replace(vector_schema=schema)


def check_schemas_differ(address: Address, vector_schema: str) -> None:
    """Raise if the store's schema is pgvector's: other stores search it for types and would find the tables."""
    if address.schema == vector_schema:
        raise errors.InvalidSetting(
            f"The schema {address.schema} contains pgvector: use a schema of its own for the store, `?schema=NAME`."
        )


def find_vector_type(connection: Connection) -> tuple[str, int] | None:
    """Return schema and oid of pgvector's type."""
    return connection.execute(
        """select n.nspname, t.oid from pg_extension e join pg_namespace n on n.oid = e.extnamespace
           join pg_type t on t.typnamespace = n.oid and t.typname = 'vector' where e.extname = 'vector'"""
    ).fetchone()


def create_vector_extension(connection: Connection) -> None:
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


def find_mark(connection: Connection, address: Address) -> str | None:
    """Return the mark of a schema, None if it is empty; raises NotAStore if it belongs to another program."""
    there, mark = connection.execute(
        """select (select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace
                   where n.nspname = %(schema)s and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')),
                  obj_description(to_regclass(%(table)s), 'pg_class')""",
        {"schema": address.schema, "table": f'"{address.schema}".migration'},
    ).fetchall()[0]
    if not there:
        return None
    if mark != MARK and not str(mark).startswith(UNFINISHED_MARK):
        raise errors.NotAStore(
            f"The schema {address.schema} of this database belongs to another program; it was not changed. "
            "Use another one: `?schema=NAME` at the end of the address."
        )
    return str(mark)


def is_current(connection: Connection, address: Address) -> bool:
    """Whether the schema has a complete store of this version."""
    mark = find_mark(connection, address)
    if mark is None:
        return False
    if mark != MARK:
        raise errors.NotAStore(f"The migration to {address.display} was not finished: run it again.")
    return not migrations.pending_migrations(applied_migrations(connection), migrations.load_migrations(*FOLDERS))


def applied_migrations(connection: Connection) -> dict[int, str]:
    return dict(PostgresSession(connection).rows("migration_list"))


def upgrade(connection: Connection, address: Address) -> None:
    """Apply missing migrations, all or nothing, once among concurrent processes."""
    connection.execute("select pg_advisory_xact_lock(hashtext(%s))", (f"holdfast {address.schema}",))
    if is_current(connection, address):
        return
    build_tables(connection, address, MARK)
    session = PostgresSession(connection)
    if session.row("journal_head_get") is None:
        key = new_key()
        session.do("node_key_put", key=key)
        journal.create_head(session, journal.Owner(get_store_info(connection, address).identity, key))


def build_tables(connection: Connection, address: Address, mark: str) -> None:
    """Create or migrate the tables; new ones get the mark."""
    session = PostgresSession(connection)
    try:
        # `if not exists` would fail for a user that owns the schema but cannot create schemas.
        if connection.execute("select 1 from pg_namespace where nspname = %s", (address.schema,)).fetchone() is None:
            connection.execute(sql.SQL("create schema {}").format(sql.Identifier(address.schema)))
        # By its qualified name: pgvector's schema may have a table with this name too.
        fresh = find_mark(connection, address) is None
        if fresh:
            connection.execute(migrations.to_postgres(migrations.TABLE + ";"))
            connection.execute(sql.SQL("comment on table migration is {}").format(mark))
        done = {} if fresh else applied_migrations(connection)
        missing = migrations.pending_migrations(done, migrations.load_migrations(*FOLDERS))
        for migration in missing:
            connection.execute(migrations.to_postgres(migration.script), prepare=False)
        data_migrations.apply_data_migrations(missing, session)
        session.many("migration_add", ({**one.record, "applied_at": time_ns() // 1000} for one in missing))
    except refusals.InsufficientPrivilege:
        raise errors.StoreUnreachable(
            "The store's tables must be created or migrated, and this user has no right to do it: "
            "open the store once as the owner of the schema."
        ) from None


def get_store_info(connection: Connection, address: Address) -> StoreInfo:
    """Read the identity of the store and of this copy."""
    ((cluster, database, schema, chain, timeline, title),) = PostgresSession(connection).rows(
        "engine_identity", schema=f'"{address.schema}"'
    )
    name = f"{re.sub('[^A-Za-z0-9_]+', '_', title)}.{address.schema}-{cluster}-{database}-{schema}"
    return StoreInfo(f"postgresql:{cluster}:{database}:{schema}", timeline, f"holdfast_{chain}", name)
