"""PostgreSQL through psycopg: one writer at a time per store; readers never wait."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper

from holdfast.kernel import errors
from holdfast.kernel.storage import index_terms, statements
from holdfast.kernel.storage.index_terms import DocumentFrequencies
from holdfast.kernel.storage.port import Row, SearchTexts, SqlPart
from holdfast.kernel.storage.postgres.address import Address
from holdfast.kernel.storage.postgres.driver_errors import translate_error
from holdfast.kernel.storage.postgres.full_text import bm25_idf, join_tsqueries, lexeme, to_tsvector
from holdfast.kernel.storage.postgres.pool import Connection
from holdfast.kernel.storage.postgres.vectors import VectorDumper, find_nearest
from holdfast.kernel.vector import Vector

HERE = Path(__file__).parent
FOLDERS = (HERE.parent / "sql", HERE / "sql")
"""Folders of the migrations."""
STATEMENTS = (statements.SHARED, HERE / "sql")

DURABLE = "select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') = 'off'"
"""A commit is durable, whatever the server's default."""
WRITE_IDLE_SECONDS = 20
"""How long a stopped client can block other writers; they wait longer than this."""
READ_IDLE_SECONDS = 600
"""Idle timeout of read transactions."""
CONNECT_SECONDS = 10
KEEPALIVE_SECONDS = 30
"""How long until an unresponsive machine is considered gone."""
MAX_BEGIN_ATTEMPTS = 3
FLUSH_ROWS = 256
"""Rows that are sent at once: a round trip is cheap compared to them."""
IN_LINE_SECONDS = 0.1
"""Extra time for the whole statement, because a writer may wait twice: in the queue and for the head."""
PLANNER_SETTINGS = (
    "set local jit = off",
    "set local max_parallel_workers_per_gather = 0",
    "set local random_page_cost = 1.1",
)
"""Statements are short: JIT and parallel workers cost more than they save. Indexes are preferred to table scans, which
would parse every memory's words."""
MIN_COMMON = 100
"""Document frequency from which counts are cached: counting takes a microsecond per memory."""
DEFAULT_LENGTH = 30.0
"""Assumed words per memory, while the store is empty."""

ADAPTERS = AdaptersMap(psycopg.adapters)
ADAPTERS.register_dumper(int, Int8Dumper)
ADAPTERS.register_dumper(Vector, VectorDumper)


@cache
def sql_of(name: str) -> str:
    return statements.for_psycopg(statements.find_statement(statements.load_statements(*STATEMENTS), name))


@cache
def join_sql(parts: tuple[SqlPart, ...]) -> str:
    return statements.for_psycopg(statements.join_parts(statements.load_statements(*STATEMENTS), parts))


def lock_head_sql(seconds: float) -> str:
    """Build statements that lock the head within a time limit; a shorter server limit stays in force."""
    one, whole = (f"{round(limit * 1000)}ms" for limit in (seconds, seconds + IN_LINE_SECONDS))
    return (
        f"set local lock_timeout = '{one}'; {DURABLE}; select set_config('statement_timeout', '{whole}', true) "
        f"where current_setting('statement_timeout')::interval not between '1ms' and '{whole}'; "
        f"{sql_of('engine_lock_head')}; set local statement_timeout to default"
    )


def bind_params(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert tuples to lists, which the driver binds as arrays."""
    lists = {name: list(value) for name, value in params.items() if isinstance(value, tuple)}
    return {**params, **lists} if lists else params


class PostgresSession:
    """Runs named statements on one connection.

    Writes are queued and sent in one pipeline with the next statement that returns rows: this halves the round trips
    to a remote database, and the time other writers wait.
    """

    def __init__(
        self,
        connection: Connection,
        counts: DocumentFrequencies | None = None,
        *,
        writes: bool = False,
        key: bytes | None = None,
    ) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._counts = counts or DocumentFrequencies(MIN_COMMON)
        self._failed: errors.StoreError | None = None
        self._writes = writes
        self._queued: list[tuple[str, list[Mapping[str, Any]]]] = []
        self._last_row: int | None = None
        self._counted: dict[str, int] = {}
        self.key = key
        """The node's key, in write sessions."""

    def rows(self, name: str, /, **params: Any) -> list[Row]:
        return self._run(sql_of(name), params)

    def row(self, name: str, /, **params: Any) -> Row | None:
        return next(iter(self.rows(name, **params)), None)

    def do(self, name: str, /, **params: Any) -> None:
        self.many(name, [params])

    def many(self, name: str, /, params: Iterable[Mapping[str, Any]]) -> None:
        self._queue(sql_of(name), params)

    def query_sql(self, sql: str, params: Mapping[str, Any]) -> list[Row]:
        if self._queued:
            self.send_queued()
        with self._guard():
            return self._connection.cursor(binary=True).execute(statements.for_psycopg(sql), params).fetchall()

    def execute_sql(self, sql: str, params: Iterable[Mapping[str, Any]]) -> None:
        self._queue(statements.for_psycopg(sql), params)
        self.send_queued()

    def _queue(self, text: str, params: Iterable[Mapping[str, Any]]) -> None:
        self.check_not_failed()
        if given := [bind_params(one) for one in params]:
            self._queued.append((text, given))
            if not self._writes or len(given) >= FLUSH_ROWS:
                self.send_queued()

    def select(self, parts: Sequence[SqlPart], params: Mapping[str, Any]) -> list[Row]:
        return self._run(join_sql(tuple(parts)), params)

    def _run(self, text: str, params: Mapping[str, Any]) -> list[Row]:
        with self._guard():
            if self._queued:
                # Rows are fetched after the end of the pipeline; a fetch inside it would wait for each statement.
                with self._connection.pipeline():
                    self._send_queued()
                    self._cursor.execute(text, bind_params(params))
            else:
                self._cursor.execute(text, bind_params(params))
            return self._cursor.fetchall()

    def _send_queued(self) -> None:
        waiting, self._queued = self._queued, []
        for text, given in waiting:
            if len(given) == 1:
                self._connection.execute(text, given[0])
            else:
                self._connection.cursor().executemany(text, given)

    def send_queued(self, last: str = "") -> None:
        """Send queued statements and optionally one more."""
        with self._guard(), self._connection.pipeline():
            self._send_queued()
            if last:
                self._connection.execute(last)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        self.check_not_failed()
        try:
            yield
        except (psycopg.Error, UnicodeError) as error:
            self._failed = translate_error(error)
            if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
                raise KeyError(str(error)) from error  # a missing parameter: a bug of ours
            raise self._failed from error

    def check_not_failed(self) -> None:
        """Raise if a statement failed: it aborts the transaction even if the error was caught."""
        if self._failed is not None:
            raise self._failed

    def index_memory(self, id: str, texts: SearchTexts | None) -> None:
        if texts is None:
            self.do("memory_text_drop", id=id)
        else:
            self.do("memory_text_put", id=id, words=to_tsvector(texts))

    def full_text_query(self, words: Sequence[str], *, match_all: bool) -> tuple[list[SqlPart], dict[str, Any]]:
        last = self.newest_row()
        known = self._current_counts(last)
        parts: list[SqlPart] = ["full_text_hits"]
        params: dict[str, Any] = {
            "match": join_tsqueries(words, every=match_all),
            "usual": self._counts.average_length or DEFAULT_LENGTH,
        }
        for number, stem in enumerate(dict.fromkeys(stem for word in words for stem in index_terms.stems(word))):
            params[f"term_{number}"] = lexeme(stem)
            held = known.get(stem, self._counted.get(stem))
            if held is None:
                parts.append(("full_text_hits.counted", number))
                params[f"last_{number}"] = last
            else:
                parts.append(("full_text_hits.term", number))
                params[f"weight_{number}"] = bm25_idf(min(held, last), last)
        return [*parts, "full_text_hits.matches"], params

    def newest_row(self) -> int:
        if self._last_row is None or self._writes:
            last = None if self._writes else self._counts.recent_row()
            if last is None:
                ((last,),) = self.rows("memory_last_row")
                self._counts.note_row(last)
            self._last_row = last
        return self._last_row

    def _current_counts(self, last_row: int) -> dict[str, int]:
        known = self._counts.current_counts(last_row)
        if not self._counts.average_length:
            self._load_statistics()
        if self._writes:
            self._counted = {}
        return known

    def document_frequencies(self, stems: Sequence[str], last_row: int) -> dict[str, int]:
        known = self._current_counts(last_row)
        if asked := [stem for stem in stems if stem not in known and stem not in self._counted]:
            self._counted.update(self.rows("word_document_counts", stems=asked, queries=list(map(lexeme, asked))))
            self._counts.update(self._counted)
        return {**{stem: count for stem, count in self._counted.items() if count}, **known}

    def _load_statistics(self) -> None:
        """Load common stems from the planner's statistics, and the average length of memories."""
        stems, shares, memories = self.row("word_statistics") or (None, None, 0)
        self._counts.update(
            {stem: round(share * memories) for stem, share in zip(stems or (), shares or (), strict=False)}
        )
        ((usual,),) = self.rows("word_average_length")
        self._counts.average_length = float(usual or DEFAULT_LENGTH)

    def match_term(self, word: str) -> str:
        return join_tsqueries([word], every=True)

    def nearest(self, vector: Vector, parts: Sequence[SqlPart], params: Mapping[str, Any], limit: int) -> list[Row]:
        return find_nearest(self, vector, parts, params, limit)

    def nearest_many(
        self, many: Sequence[Vector], parts: Sequence[SqlPart], params: Mapping[str, Any], limit: int
    ) -> list[list[Row]] | None:
        return None

    def vectors(self, ids: Sequence[str], model: str) -> list[Row]:
        with self._guard():
            cursor = self._connection.cursor(binary=True)
            return cursor.execute(sql_of("embedding_of"), {"ids": list(ids), "model": model}).fetchall()

    def purge_index(self) -> None:
        """Nothing to do: vacuum does it."""


def last_row(cursor: psycopg.Cursor[Row]) -> Row | None:
    """Return the last row of all results of a script."""
    row = cursor.fetchone() if cursor.description else None
    while cursor.nextset():
        row = cursor.fetchone() if cursor.description else row
    return row


def connection_options(address: Address) -> dict[str, Any]:
    """Build the options of every connection. Settings are per transaction, because poolers share connections."""
    patience = {
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": KEEPALIVE_SECONDS,
        "keepalives_interval": KEEPALIVE_SECONDS // 3,
        "keepalives_count": 3,
        "tcp_user_timeout": KEEPALIVE_SECONDS * 1000,
    }
    given = conninfo_to_dict(address.conninfo)
    return {
        "autocommit": True,
        "context": ADAPTERS_CONTEXT,
        "prepare_threshold": 5 if address.use_prepared else None,
        "application_name": "holdfast",
        **{name: value for name, value in patience.items() if name not in given},
    }


class _AdaptContext:
    adapters = ADAPTERS
    connection = None


ADAPTERS_CONTEXT = _AdaptContext()


def connect(address: Address) -> Connection:
    return Connection.connect(address.conninfo, **connection_options(address))
