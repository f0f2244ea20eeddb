"""PostgreSQL through psycopg: one writer at a time for the whole database, readers that never wait."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper

from ...domain import errors
from ...domain.vector import Vector
from .. import statements, tokens, turns
from ..counts import Counts
from ..port import Fault, Part, Row, Session, Texts
from .address import Address
from .foreign import BROKEN, foreign
from .listening import Listener
from .pool import Connection, Pool, hung_up
from .text import lexeme, queries_of, rarity, vector_of
from .vectors import VectorDumper, nearest

HERE = Path(__file__).parent
FOLDERS = (HERE.parent / "sql", HERE / "sql")

DURABLE = "select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') = 'off'"
"""Acknowledged means durable, whatever the server does for others."""
IDLE_SECONDS = 20
"""How long a client that was stopped in the middle of a change may hold up all others: they wait for longer."""
VIEW_SECONDS = 600
"""How long a client may stop in the middle of reading."""
CONNECT_SECONDS = 10
GONE_SECONDS = 30
"""How long a machine that does not answer any more is believed to be there."""
BEGINNINGS = 3
MANY = 256
"""So many rows do not wait for the next statement: one way to the database is little beside them."""
IN_LINE_SECONDS = 0.1
"""Who waits in line and then for the head waits twice: both together end so long after one wait would."""
PLANNING = ("set local jit = off", "set local max_parallel_workers_per_gather = 0", "set local random_page_cost = 1.1")
"""Statements are short: compiling one, or starting workers for it, takes longer than it does. And an index is better
than reading a table from end to end, which would take every memory's words apart."""
COMMON = 100
"""Counting a word takes a microsecond for each memory that holds it."""
USUAL_LENGTH = 30.0
"""Words of a memory, as long as there are none to count."""

ADAPTERS = AdaptersMap(psycopg.adapters)
ADAPTERS.register_dumper(int, Int8Dumper)
ADAPTERS.register_dumper(Vector, VectorDumper)


@cache
def sql_of(name: str) -> str:
    return statements.for_psycopg(statements.load(*FOLDERS)[name])


@cache
def joined(parts: tuple[Part, ...]) -> str:
    return statements.for_psycopg(statements.joined(statements.load(*FOLDERS), parts))


def holding_the_head(seconds: float) -> str:
    """Statements that hold the head, once it is free, and wait for it only so long; a shorter limit of theirs stays."""
    one, whole = (f"{round(limit * 1000)}ms" for limit in (seconds, seconds + IN_LINE_SECONDS))
    return (
        f"set local lock_timeout = '{one}'; {DURABLE}; select set_config('statement_timeout', '{whole}', true) "
        f"where current_setting('statement_timeout')::interval not between '1ms' and '{whole}'; "
        f"{sql_of('engine_alone')}; set local statement_timeout to default"
    )


def bound(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Parameters whose tuples are lists, as the driver binds an array."""
    lists = {name: list(value) for name, value in params.items() if isinstance(value, tuple)}
    return {**params, **lists} if lists else params


class PostgresSession:
    """Statements by name on one connection.

    What a writer does only for its effect waits for the next statement that answers, and goes with it: a database far
    away is asked half as often, and other writers wait half as long.
    """

    def __init__(
        self, connection: Connection, counts: Counts | None = None, *, writes: bool = False, key: bytes | None = None
    ) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._counts = counts or Counts(COMMON)
        self._failed: errors.StoreError | None = None
        self._writes = writes
        self._waiting: list[tuple[str, list[Mapping[str, Any]]]] = []
        self._last_row: int | None = None
        self._counted: dict[str, int] = {}
        self.key = key
        """The node's key, for a session that writes."""

    def rows(self, name: str, /, **params: Any) -> list[Row]:
        return self._run(sql_of(name), params)

    def row(self, name: str, /, **params: Any) -> Row | None:
        return next(iter(self.rows(name, **params)), None)

    def do(self, name: str, /, **params: Any) -> None:
        self.many(name, [params])

    def many(self, name: str, /, params: Iterable[Mapping[str, Any]]) -> None:
        self._wait(sql_of(name), params)

    def ask(self, sql: str, params: Mapping[str, Any]) -> list[Row]:
        if self._waiting:
            self.finish()
        with self._whole():
            return self._connection.cursor(binary=True).execute(statements.for_psycopg(sql), params).fetchall()

    def tell(self, sql: str, params: Iterable[Mapping[str, Any]]) -> None:
        self._wait(statements.for_psycopg(sql), params)
        self.finish()

    def _wait(self, text: str, params: Iterable[Mapping[str, Any]]) -> None:
        self.must_be_whole()
        if given := [bound(one) for one in params]:
            self._waiting.append((text, given))
            if not self._writes or len(given) >= MANY:
                self.finish()

    def assembled(self, parts: Sequence[Part], params: Mapping[str, Any]) -> list[Row]:
        return self._run(joined(tuple(parts)), params)

    def _run(self, text: str, params: Mapping[str, Any]) -> list[Row]:
        with self._whole():
            if self._waiting:
                # What it answers is fetched after the pipeline's end, which waits for it: before, each would wait.
                with self._connection.pipeline():
                    self._send_waiting()
                    self._cursor.execute(text, bound(params))
            else:
                self._cursor.execute(text, bound(params))
            return self._cursor.fetchall()

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for text, given in waiting:
            if len(given) == 1:
                self._connection.execute(text, given[0])
            else:
                self._connection.cursor().executemany(text, given)

    def finish(self, last: str = "") -> None:
        """Do what waits, and one thing more."""
        with self._whole(), self._connection.pipeline():
            self._send_waiting()
            if last:
                self._connection.execute(last)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        self.must_be_whole()
        try:
            yield
        except (psycopg.Error, UnicodeError) as error:
            self._failed = foreign(error)
            if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
                raise KeyError(str(error)) from error  # a statement that was given too little: our own mistake
            raise self._failed from error

    def must_be_whole(self) -> None:
        """A statement that failed ends its transaction, whoever caught the error."""
        if self._failed is not None:
            raise self._failed

    def index(self, id: str, texts: Texts | None) -> None:
        if texts is None:
            self.do("memory_text_drop", id=id)
        else:
            self.do("memory_text_put", id=id, words=vector_of(texts))

    def asking(self, words: Sequence[str], *, every: bool) -> tuple[list[Part], dict[str, Any]]:
        last = self.newest_row()
        known = self._known(last)
        parts: list[Part] = ["memory_found"]
        params: dict[str, Any] = {
            "match": queries_of(words, every=every),
            "usual": self._counts.usual_length or USUAL_LENGTH,
        }
        for number, stem in enumerate(dict.fromkeys(stem for word in words for stem in tokens.stems(word))):
            params[f"term_{number}"] = lexeme(stem)
            held = known.get(stem, self._counted.get(stem))
            if held is None:
                parts.append(("memory_found.counted", number))
                params[f"last_{number}"] = last
            else:
                parts.append(("memory_found.term", number))
                params[f"weight_{number}"] = rarity(min(held, last), last)
        return [*parts, "memory_found.among"], params

    def newest_row(self) -> int:
        if self._last_row is None or self._writes:
            last = None if self._writes else self._counts.recent_row()
            if last is None:
                ((last,),) = self.rows("memory_last_row")
                self._counts.note_row(last)
            self._last_row = last
        return self._last_row

    def _known(self, last_row: int) -> dict[str, int]:
        known = self._counts.known(last_row)
        if not self._counts.usual_length:
            self._look_around()
        if self._writes:
            self._counted = {}
        return known

    def holding(self, stems: Sequence[str], last_row: int) -> dict[str, int]:
        known = self._known(last_row)
        if asked := [stem for stem in stems if stem not in known and stem not in self._counted]:
            self._counted.update(self.rows("word_counts", stems=asked, queries=list(map(lexeme, asked))))
            self._counts.learn(self._counted)
        return {**{stem: count for stem, count in self._counted.items() if count}, **known}

    def _look_around(self) -> None:
        """Which stems are common, as the database found out for its planner some time ago; how long memories are."""
        stems, shares, memories = self.row("word_statistics") or (None, None, 0)
        self._counts.learn(
            {stem: round(share * memories) for stem, share in zip(stems or (), shares or (), strict=False)}
        )
        ((usual,),) = self.rows("word_usual")
        self._counts.usual_length = float(usual or USUAL_LENGTH)

    def match(self, word: str) -> str:
        return queries_of([word], every=True)

    def nearest(self, vector: Vector, parts: Sequence[Part], params: Mapping[str, Any], limit: int) -> list[Row]:
        return nearest(self, vector, parts, params, limit)

    def close(
        self, many: Sequence[Vector], parts: Sequence[Part], params: Mapping[str, Any], limit: int
    ) -> list[list[Row]] | None:
        return None

    def vectors(self, ids: Sequence[str], model: str) -> list[Row]:
        with self._whole():
            cursor = self._connection.cursor(binary=True)
            return cursor.execute(sql_of("embedding_of"), {"ids": list(ids), "model": model}).fetchall()

    def forget_words(self) -> None:
        """The database does, when it next vacuums."""


class About(NamedTuple):
    """What a connection tells of the store behind it."""

    place: str
    timeline: str
    channel: str
    name: str
    """Of what belongs to the store on a machine: the same for every user, and on every way to the database."""

    @property
    def identity(self) -> str:
        return f"{self.place}:{self.timeline}"


class PostgresStore:
    """One schema of a database. Connections come from a pool; every thread reads through one of its own at a time."""

    def __init__(self, address: Address, about: About) -> None:
        self.path = address.shown
        self._address = address
        self._about = about
        self._lock = threading.RLock()
        self._local = threading.local()
        self._counts = Counts(COMMON)
        self._pool = Pool(lambda: connect(address), address.pool_size, address.wait_seconds)
        self._listener = Listener(lambda: connect(address), about.channel)
        self._pid = os.getpid()

    # Transactions

    @contextmanager
    def reading(self) -> Iterator[PostgresSession]:
        connection: Connection | None = getattr(self._local, "reader", None)
        if connection is not None:
            yield PostgresSession(connection, self._counts)
            return
        connection, _ = self._begun("begin isolation level repeatable read, read only", VIEW_SECONDS)
        try:
            self._local.reader = connection
            yield PostgresSession(connection, self._counts)
        finally:
            self._local.reader = None
            self._pool.give_back(connection)

    @contextmanager
    def writing(self, before_commit: Callable[[], None] = lambda: None) -> Iterator[PostgresSession]:
        with turns.turn(self._lock) as left:
            if getattr(self._local, "writes", False):
                raise RuntimeError("a transaction is open in this thread already")
            connection, held = self._begun("begin", IDLE_SECONDS, left)
            try:
                self._local.writes = True
                if held is None:
                    raise errors.StoreDamaged
                self._about = self._about._replace(timeline=held[1])
                session = PostgresSession(connection, self._counts, writes=True, key=held[0])
                yield session
                before_commit()
                session.must_be_whole()
                self._commit(connection, session)
                self._counts.grow()
            finally:
                self._local.writes = False
                self._pool.give_back(connection)

    def inside(self) -> bool:
        return getattr(self._local, "reader", None) is not None or getattr(self._local, "writes", False)

    def _commit(self, connection: Connection, session: PostgresSession) -> None:
        if hung_up(connection):
            raise BROKEN.error()
        try:
            session.finish("commit")
        except errors.StoreError as error:
            if connection.broken:
                raise errors.OutcomeUnknown from error
            raise

    def _begun(
        self, begin: str, idle_seconds: int, left: Callable[[], float] | None = None
    ) -> tuple[Connection, Row | None]:
        """A connection inside a transaction, and what the head told who holds it, in the time that is left for that.

        One that was cut while it lay in the pool has done nothing yet: the next one is tried.
        """
        self._must_be_ours()
        guard = f"set local idle_in_transaction_session_timeout = '{idle_seconds}s'"
        script = "; ".join((begin, guard, *PLANNING, self._address.path_setting))
        for tries_left in reversed(range(BEGINNINGS)):
            connection = self._pool.take(left() if left else inf)
            try:
                return connection, last_row(
                    connection.execute(f"{script}; {holding_the_head(left())}" if left else script)
                )
            except psycopg.Error as error:
                self._pool.give_back(connection)
                if not (connection.broken and tries_left):
                    raise foreign(error) from error
            except BaseException:
                self._pool.give_back(connection)
                raise
        raise AssertionError("the last try returns or raises")

    def _must_be_ours(self) -> None:
        if self._pid != os.getpid():
            raise errors.StoreError("The store was opened before a fork: open it again in the child.")

    def close(self) -> None:
        if self._pid != os.getpid():
            return  # the connections are the parent's
        self._listener.close()
        self._pool.close()

    # What belongs to the store

    def signing_key(self, session: Session) -> bytes | None:
        if isinstance(session, PostgresSession) and session.key is not None:
            return session.key
        row = session.row("node_key_get")
        return None if row is None else bytes(row[0])

    def lacks_key(self) -> bool:
        return False

    def public_key(self, session: Session) -> bytes | None:
        row = session.row("node_key_public")
        return None if row is None else bytes(row[0])

    def make_signing_key(self, session: Session, key: bytes) -> None:
        session.do("node_key_put", key=key)

    def identity(self) -> str:
        return self._about.identity

    def beside(self, what: str) -> Path:
        return self._address.folder / f"{self._about.name}.{what}"

    def size(self) -> int:
        with self.reading() as session:
            ((size,),) = session.rows("engine_size")
        return int(size)

    def wait(self, seconds: float) -> bool:
        self._must_be_ours()
        return self._listener.wait(seconds)

    def snapshot(self, to: Path) -> None:
        from . import copying

        with self.reading() as session:
            copying.write_copy(session, to)

    def replace(self, by: Path, prepare: Callable[[], None]) -> None:
        from . import copying

        self._must_be_ours()
        with turns.turn(self._lock) as left, copying.alone(self._address, left()) as (connection, session):
            prepare()
            copying.take_over(session, by)
            self._commit(connection, session)
            self._counts = Counts(COMMON)

    def faults(self) -> list[Fault]:
        from . import health

        return health.faults(self._address)

    def facts(self) -> dict[str, Any]:
        from . import health

        with self.reading() as session:
            return health.facts(session, self._address)

    def private_files(self) -> list[Path]:
        return []


def last_row(cursor: psycopg.Cursor[Row]) -> Row | None:
    """Of all that a script answered."""
    row = cursor.fetchone() if cursor.description else None
    while cursor.nextset():
        row = cursor.fetchone() if cursor.description else row
    return row


def options(address: Address) -> dict[str, Any]:
    """How every connection is made. Settings go with each transaction, for poolers share connections between them."""
    patience = {
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": GONE_SECONDS,
        "keepalives_interval": GONE_SECONDS // 3,
        "keepalives_count": 3,
        "tcp_user_timeout": GONE_SECONDS * 1000,
    }
    given = conninfo_to_dict(address.conninfo)
    return {
        "autocommit": True,
        "context": ADAPTERS_CONTEXT,
        "prepare_threshold": 5 if address.prepares else None,
        "application_name": "holdfast",
        **{name: value for name, value in patience.items() if name not in given},
    }


class _Context:
    adapters = ADAPTERS
    connection = None


ADAPTERS_CONTEXT = _Context()


def connect(address: Address) -> Connection:
    return Connection.connect(address.conninfo, **options(address))
