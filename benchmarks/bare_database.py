"""What the same work costs through psycopg alone: the same rows, the same tables, the same server."""

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
"""As many as a recall of ten weighs against one another."""
HITS = 10
BEYOND = 100_000_000
"""Rows of the sample are numbered from here on where they stand beside those of a store."""

_BEGIN = "begin isolation level repeatable read, read only"
_MATCHING = """
select m.id, ts_rank(t.words, a.query) as score from cast(%s as tsquery) as a(query)
join memory_text t on t.words @@ a.query join memory m on m.rowno = t.rowno order by score desc limit %s"""
_NEAREST = """
select e.memory, (e.vector::vector(384)) <=> %s as away from embedding e
where e.dim = 384 order by (e.vector::vector(384)) <=> %s limit %s"""
_HEAD = "update chain set seq = %s, n = %s, hash = %s, kept_at = %s, signature = %s"
_READ = f"select {statements.load_statements(*STATEMENTS)['memory.columns']} from memory m where m.id = any(%s)"

Statement = tuple[str, Sequence[Any]]


def open_connection(url: str) -> Connection:
    """A connection as durable and as well tuned as a store's own, with every statement prepared."""
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
    """The tables of a store, without Holdfast."""

    def __init__(self, url: str) -> None:
        self.schema = parse_address(url, Path()).schema
        self.connection = open_connection(url)

    def ask(self, question: str) -> None:
        """The database's own answer to any of the words that carry a question's meaning: find, then read."""
        self.connection.execute(_BEGIN)
        found = self._matching(question)
        self._read(found[:HITS])

    def ask_near(self, question: str, vector: Vector) -> None:
        """The same, and pgvector's own answer to what is nearest; the best of both are read."""
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
        """Statement by statement, durable when this returns."""
        for text, values in transaction:
            self.connection.execute(text, values)

    def store_at_once(self, transaction: Sequence[Statement]) -> None:
        """All statements sent together, durable when this returns."""
        with self.connection.pipeline():
            self.store(transaction)

    def follow(self, other: "BareDatabase") -> None:
        """Take over what another one has come to hold since the last time."""
        for table, key in (("memory", "rowno"), ("memory_text", "rowno"), ("journal", "seq")):
            self.connection.execute(
                f"insert into {table} select * from {other.schema}.{table} theirs "
                f"where not exists (select 1 from {table} ours where ours.{key} = theirs.{key})"
            )

    def tidy(self) -> None:
        """What a database does by itself within some minutes: look at what is new."""
        self.connection.execute("vacuum (analyze) memory, memory_text, memory_tag, journal, embedding")

    def unindex(self) -> list[str]:
        """Drop the indexes of vectors: filling them one by one takes many times as long as making them anew."""
        found = self.connection.execute(
            "select indexname, indexdef from pg_indexes where schemaname = %s and indexdef ilike '%% using hnsw %%'",
            (self.schema,),
        ).fetchall()
        for name, _ in found:
            self.connection.execute(f"drop index {name}")
        return [definition for _, definition in found]

    def index(self, definitions: Sequence[str]) -> None:
        """Make indexes again."""
        self.connection.execute("set maintenance_work_mem = '1GB'")
        for definition in definitions:
            self.connection.execute(definition)

    def about(self) -> str:
        """The server, and how durable it is."""
        ((version, fsync, commit),) = self.connection.execute(
            "select current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')"
        ).fetchall()
        return f"PostgreSQL {version.split()[0]} (fsync {fsync}, synchronous_commit {commit})"

    def close(self) -> None:
        self.connection.close()


def transactions(url: str, count: int) -> list[list[Statement]]:
    """The statements that put the rows of the newest stores of a memory, one transaction for each."""
    with open_connection(url) as connection, connection.cursor(row_factory=dict_row) as cursor:
        head = cursor.execute("select * from chain").fetchall()[0]
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
        (_HEAD, (*(entry[name] for name in ("seq", "n", "hash", "kept_at")), head["signature"])),
        ("commit", ()),
    ]


def insert(table: str, row: dict[str, Any]) -> Statement:
    places = ", ".join(["%s"] * len(row))
    return f"insert into {table} ({', '.join(row)}) values ({places})", tuple(row.values())
