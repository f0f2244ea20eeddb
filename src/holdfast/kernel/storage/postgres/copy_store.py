"""A PostgreSQL schema as the destination of a copy."""

import os
from collections.abc import Callable

from psycopg import sql

from holdfast.kernel import errors
from holdfast.kernel.journal import journal
from holdfast.kernel.storage.copy_tables import Found, Target
from holdfast.kernel.storage.postgres.address import Address
from holdfast.kernel.storage.postgres.driver_errors import translated
from holdfast.kernel.storage.postgres.engine import PostgresSession, connect
from holdfast.kernel.storage.postgres.open_store import (
    MARK,
    UNFINISHED,
    about_of,
    build,
    found_mark,
    found_vector,
    must_be_apart,
    usable,
)
from holdfast.kernel.storage.postgres.pool import Connection
from holdfast.kernel.storage.postgres.store import PostgresStore


class PostgresPlace:
    """A schema that is missing, empty, or has an unfinished copy."""

    def __init__(self, address: Address) -> None:
        self.path = address.shown
        self._address = address

    def look(self) -> Found:
        with translated(), connect(self._address) as connection, connection.transaction():
            connection.execute("set transaction read only")
            connection.execute(self._address.path_setting)
            if vector := found_vector(connection):
                must_be_apart(self._address, vector[0])
            found = self._found(connection)
            if found.state == "nothing":
                self._must_be_possible(connection)
            return found

    def begin(self, head: journal.Head, admit: Callable[[Found], None]) -> Target:
        admit(self.look())
        mark = UNFINISHED + os.urandom(8).hex()
        with translated(), connect(self._address) as connection:
            address = usable(connection, self._address)
            with connection.transaction():
                connection.execute(address.path_setting)
                connection.execute("select pg_advisory_xact_lock(hashtext(%s))", (f"holdfast {address.schema}",))
                found = self._found(connection)
                admit(found)
                build(connection, address, mark)
                session = PostgresSession(connection)
                if session.row("chain_head") is None:
                    session.do("chain_begin", **head._asdict())
                # Wait until an earlier copy has finished its current page.
                session.rows("engine_alone")
                connection.execute(sql.SQL("comment on table migration is {}").format(mark))
                about = about_of(connection, address)
        return Target(PostgresStore(address, about), mark, resumed=found.state == "unfinished")

    def _found(self, connection: Connection) -> Found:
        mark = found_mark(connection, self._address)
        if mark is None:
            return Found("nothing")
        identity = about_of(connection, self._address).identity
        if mark == MARK:
            return Found("store", identity=identity)
        return Found("unfinished", journal.head_of(PostgresSession(connection)).node, identity)

    def _must_be_possible(self, connection: Connection) -> None:
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
        if not vector and found_vector(connection) is None:
            raise errors.StoreUnreachable("The database server has no pgvector: install it first.")
