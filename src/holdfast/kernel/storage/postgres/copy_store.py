"""A PostgreSQL schema as the destination of a copy."""

import os
from collections.abc import Callable

from psycopg import sql

from holdfast.kernel import errors
from holdfast.kernel.journal import journal
from holdfast.kernel.storage.copy_tables import Target, TargetState
from holdfast.kernel.storage.postgres.address import Address
from holdfast.kernel.storage.postgres.driver_errors import translate_errors
from holdfast.kernel.storage.postgres.engine import PostgresSession, connect
from holdfast.kernel.storage.postgres.open_store import (
    MARK,
    UNFINISHED_MARK,
    build_tables,
    check_schemas_differ,
    find_mark,
    find_vector_type,
    get_store_info,
    prepare_database,
)
from holdfast.kernel.storage.postgres.pool import Connection
from holdfast.kernel.storage.postgres.store import PostgresStore


class PostgresDestination:
    """A schema that is missing, empty, or has an unfinished copy."""

    def __init__(self, address: Address) -> None:
        self.path = address.display
        self._address = address

    def inspect(self) -> TargetState:
        with translate_errors(), connect(self._address) as connection, connection.transaction():
            connection.execute("set transaction read only")
            connection.execute(self._address.path_setting)
            if vector := find_vector_type(connection):
                check_schemas_differ(self._address, vector[0])
            found = self._inspect(connection)
            if found.state == "nothing":
                self._check_can_create(connection)
            return found

    def begin(self, head: journal.Head, check: Callable[[TargetState], None]) -> Target:
        check(self.inspect())
        mark = UNFINISHED_MARK + os.urandom(8).hex()
        with translate_errors(), connect(self._address) as connection:
            address = prepare_database(connection, self._address)
            with connection.transaction():
                connection.execute(address.path_setting)
                connection.execute("select pg_advisory_xact_lock(hashtext(%s))", (f"holdfast {address.schema}",))
                found = self._inspect(connection)
                check(found)
                build_tables(connection, address, mark)
                session = PostgresSession(connection)
                if session.row("journal_head_get") is None:
                    session.do("journal_head_add", **head._asdict())
                # Wait until an earlier copy has finished its current page.
                session.rows("engine_lock_head")
                connection.execute(sql.SQL("comment on table migration is {}").format(mark))
                about = get_store_info(connection, address)
        return Target(PostgresStore(address, about), mark, resumed=found.state == "unfinished")

    def _inspect(self, connection: Connection) -> TargetState:
        mark = find_mark(connection, self._address)
        if mark is None:
            return TargetState("nothing")
        identity = get_store_info(connection, self._address).identity
        if mark == MARK:
            return TargetState("store", identity=identity)
        return TargetState("unfinished", journal.get_head(PostgresSession(connection)).node, identity)

    def _check_can_create(self, connection: Connection) -> None:
        """Raise unless the tables can be created here."""
        ((here, anywhere, vector),) = connection.execute(
            """select (select has_schema_privilege(oid, 'create') from pg_namespace where nspname = %s),
                      has_database_privilege(current_database(), 'create'),
                      exists (select 1 from pg_available_extensions where name = 'vector')""",
            (self._address.schema,),
        ).fetchall()
        if not (anywhere if here is None else here):
            raise errors.StoreUnreachable(
                "This database user cannot create tables there: grant it that right, or use another user."
            )
        if not vector and find_vector_type(connection) is None:
            raise errors.StoreUnreachable("The database server has no pgvector: install it first.")
