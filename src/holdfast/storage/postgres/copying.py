"""A schema that a store is copied into, and copies of a store in a file."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from psycopg import sql

from ...domain import errors
from .. import journal, moving
from ..moving import Found, Target
from ..port import Session
from ..sqlite.copying import new_copy, tables
from ..sqlite.opening import open_copy
from .address import Address
from .engine import PostgresSession, PostgresStore, connect, holding_the_head
from .foreign import translated
from .opening import MARK, UNFINISHED, about_of, build, found_mark, found_vector, must_be_apart, usable
from .pool import Connection

REPLACING_SECONDS = 3600
"""How long the copy of what was there may take before a store is replaced."""


class PostgresPlace:
    """A schema that is not there, is empty, or holds what an unfinished move left."""

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
                # Whoever is in the midst of a page of an earlier move ends it first.
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
        """Whether the tables could be made here."""
        ((here, anywhere, vector),) = connection.execute(
            """select (select has_schema_privilege(oid, 'create') from pg_namespace where nspname = %s),
                      has_database_privilege(current_database(), 'create'),
                      exists (select 1 from pg_available_extensions where name = 'vector')""",
            (self._address.schema,),
        ).fetchall()
        if not (anywhere if here is None else here):
            raise errors.StoreUnreachable("This database user may make no tables there: name another, or grant it.")
        if not vector and found_vector(connection) is None:
            raise errors.StoreUnreachable("The database server has no pgvector: install it there first.")


@contextmanager
def alone(address: Address, seconds: float) -> Iterator[tuple[Connection, PostgresSession]]:
    """A transaction alone among the writers, however long it takes, on a connection that no reader misses."""
    with translated(), connect(address) as connection:
        connection.execute(
            f"begin; set local idle_in_transaction_session_timeout = '{REPLACING_SECONDS}s'; "
            f"{address.path_setting}; {holding_the_head(seconds)}"
        )
        yield connection, PostgresSession(connection, writes=True)


def write_copy(session: Session, to: Path) -> None:
    """All that a session sees, as a SQLite store in a new file."""
    with new_copy(to) as copy:
        moving.fill(copy, session, tables())


def take_over(session: Session, by: Path) -> None:
    """All that a copy holds in the place of everything. The head stays where it is, for others wait for it."""
    with closing(open_copy(by)) as copy, copy.reading() as source:
        moving.empty(session, tables())
        moving.fill(session, source, tables())
