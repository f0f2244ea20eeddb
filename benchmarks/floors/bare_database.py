"""The floor on PostgreSQL: the same work with bare psycopg on the same server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from holdfast.kernel.storage import statements
from holdfast.kernel.storage.postgres.address import parse_address
from holdfast.kernel.storage.postgres.engine import ADAPTERS, DURABLE, PLANNER_SETTINGS, STATEMENTS
from holdfast.kernel.storage.postgres.full_text import join_tsqueries
from holdfast.kernel.storage.postgres.pool import Connection
from holdfast.kernel.storage.postgres.vectors import MIN_EF_SEARCH
from holdfast.kernel.text.words import query_words
from holdfast.kernel.vector import Vector

CANDIDATES = 50
"""As many candidates as a recall of ten ranks."""
HITS = 10
BEYOND = 100_000_000
"""First row number of the sample's rows in the copied tables."""

_BEGIN = "begin isolation level repeatable read, read only"
_MATCHING = """
select m.id, ts_rank(t.words, a.query) as score from cast(%s as tsquery) as a(query)
join memory_text t on t.words @@ a.query join memory m on m.rowno = t.rowno order by score desc limit %s"""
_NEAREST = """
select e.memory, (e.vector::vector(384)) <=> %s as away from embedding e
where e.dim = 384 order by (e.vector::vector(384)) <=> %s limit %s"""
_HEAD = "update journal_head set seq = %s, n = %s, hash = %s, recorded_at = %s, signature = %s"
_READ = f"select {statements.load_statements(*STATEMENTS)['memory.columns']} from memory m where m.id = any(%s)"

Statement = tuple[str, Sequence[Any]]


def open_connection(url: str) -> Connection:
    """Open a connection with a store's durability and tuning, and prepared statements."""
    address = parse_address(url, Path())
    connection = Connection.connect(address.conninfo, autocommit=True, prepare_threshold=0, context=ADAPTERS)
    for setting in (
        f'set search_path = "{address.schema}", public',
        *PLANNER_SETTINGS,
        f"set hnsw.ef_search = {MIN_EF_SEARCH}",
    ):
        connection.execute(setting.replace("set local", "set"))
    connection.execute(DURABLE.replace("true", "false"))
    return connection


class BareDatabase:
    """A store's tables, used without Holdfast."""

    def __init__(self, url: str) -> None:
        self.schema = parse_address(url, Path()).schema
        self.connection = open_connection(url)

    def ask(self, question: str) -> None:
        """Search for any significant word of the question, then read the rows."""
        self.connection.execute(_BEGIN)
        found = self._matching(question)
        self._read(found[:HITS])

    def ask_near(self, question: str, vector: Vector) -> None:
        """Search by words and by pgvector, then read the best rows of both."""
        self.connection.execute(_BEGIN)
        found, near = self._matching(question), self._nearest(vector)
        self._read([*found[: HITS // 2], *near[: HITS // 2]])

    def _matching(self, question: str) -> list[str]:
        words = join_tsqueries(query_words(question), every=False)
        return [id for id, _ in self.connection.execute(_MATCHING, (words, CANDIDATES)).fetchall()]

    def _nearest(self, vector: Vector) -> list[str]:
        return [id for id, _ in self.connection.execute(_NEAREST, (vector, vector, CANDIDATES)).fetchall()]

    def _read(self, ids: list[str]) -> None:
        self.connection.execute(_READ, (ids,)).fetchall()
        self.connection.execute("commit")

    def store(self, transaction: Sequence[Statement]) -> None:
        """Execute statement by statement; durable when this returns."""
        for text, values in transaction:
            self.connection.execute(text, values)

    def store_at_once(self, transaction: Sequence[Statement]) -> None:
        """Execute all statements in one pipeline; durable when this returns."""
        with self.connection.pipeline():
            self.store(transaction)

    def follow(self, other: "BareDatabase") -> None:
        """Copy the rows that another database got since the last call."""
        for table, key in (("memory", "rowno"), ("memory_text", "rowno"), ("journal", "seq")):
            self.connection.execute(
                f"insert into {table} select * from {other.schema}.{table} theirs "
                f"where not exists (select 1 from {table} ours where ours.{key} = theirs.{key})"
            )

    def tidy(self) -> None:
        """Vacuum and analyze, which the server would do itself within minutes."""
        self.connection.execute("vacuum (analyze) memory, memory_text, memory_tag, journal, embedding")

    def unindex(self) -> list[str]:
        """Drop the vector indexes; return their definitions. Rebuilding is much faster than filling them row by row."""
        found = self.connection.execute(
            "select indexname, indexdef from pg_indexes where schemaname = %s and indexdef ilike '%% using hnsw %%'",
            (self.schema,),
        ).fetchall()
        for name, _ in found:
            self.connection.execute(f"drop index {name}")
        return [definition for _, definition in found]

    def index(self, definitions: Sequence[str]) -> None:
        """Create indexes."""
        self.connection.execute("set maintenance_work_mem = '1GB'")
        for definition in definitions:
            self.connection.execute(definition)

    def about(self) -> str:
        """Describe the server and its durability settings."""
        ((version, fsync, commit),) = self.connection.execute(
            "select current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')"
        ).fetchall()
        return f"PostgreSQL {version.split()[0]} (fsync {fsync}, synchronous_commit {commit})"

    def close(self) -> None:
        self.connection.close()


def transactions(url: str, count: int) -> list[list[Statement]]:
    """Return the statements that write the rows of the newest memories, one transaction each."""
    with open_connection(url) as connection, connection.cursor(row_factory=dict_row) as cursor:
        head = cursor.execute("select * from journal_head").fetchall()[0]
        entries = cursor.execute("select * from journal order by seq desc limit %s", (count,)).fetchall()
        return [transaction(cursor, head, entry) for entry in reversed(entries)]


def transaction(cursor: psycopg.Cursor[Any], head: dict[str, Any], entry: dict[str, Any]) -> list[Statement]:
    memory = cursor.execute("select * from memory where id = %s", (entry["record"],)).fetchall()[0]
    words = cursor.execute("select * from memory_text where rowno = %s", (memory["rowno"],)).fetchall()[0]
    tags = cursor.execute("select * from memory_tag where memory = %s", (memory["id"],)).fetchall()
    memory["rowno"] = words["rowno"] = memory["rowno"] + BEYOND
    entry["seq"] += BEYOND
    return [
        ("begin", ()),
        insert("memory", memory),
        *(insert("memory_tag", tag) for tag in tags),
        insert("memory_text", words),
        insert("journal", entry),
        (_HEAD, (*(entry[name] for name in ("seq", "n", "hash", "recorded_at")), head["signature"])),
        ("commit", ()),
    ]


def insert(table: str, row: dict[str, Any]) -> Statement:
    places = ", ".join(["%s"] * len(row))
    return f"insert into {table} ({', '.join(row)}) values ({places})", tuple(row.values())
