"""Write stores as older releases did: with the migrations up to a number, and the names of that time."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from psycopg import sql

from holdfast.kernel.storage import migrations
from holdfast.kernel.storage.copy_destinations import tables
from holdfast.kernel.storage.copy_tables import Table
from holdfast.kernel.storage.port import SearchTexts, Session, Store
from holdfast.kernel.storage.postgres import engine as postgres_engine
from holdfast.kernel.storage.postgres.address import parse_address
from holdfast.kernel.storage.postgres.open_store import MARK, prepare_database
from holdfast.kernel.storage.sqlite import engine as sqlite_engine
from holdfast.kernel.storage.sqlite.connection import open_database
from holdfast.kernel.vector import Vector

# The names before migration 32.
OLD_TABLES = {
    "journal_head": "chain",
    "version_vector": "heard",
    "sync_cursor": "followed",
    "remote_change": "relayed",
    "replica": "author",
    "quarantine_dropped": "dropped",
    "sync_pending_ack": "unreplicated",
    "ai_memory_state": "told",
    "compaction_point": "floor",
    "compacted_record": "folded",
    "baseline": "base",
    "meta": "kept",
    "job_watermark": "last_done",
    "memory_access": "access",
    "erased_person": "forgotten",
    "duplicate_count": "restated",
    "imported_statement": "mined",
    "lsh_band": "memory_gist",
    "curate_mark": "curate_done",
    "curate_proposal": "curate_offer",
    "reflection_proposal": "reflection_offer",
}
OLD_COLUMNS = {
    "*": {"field_versions": "cells", "recorded_at": "kept_at", "proposed_at": "offered_at"},
    "memory": {
        "visible_as": "shown",
        "thread_key": "strand",
        "position": "spot",
        "bigrams": "spelled",
        "index_terms": "parsed",
    },
    "compaction_point": {"compacted_at": "folded_at", "removed_entries": "dropped", "remaining_sum": "kept"},
    "replica": {"learned_at": "learnt_at"},
    "remote_change": {"exact_body": "said"},
    "imported_statement": {"utterance_digest": "said"},
    "duplicate_count": {"last_at": "restated_at"},
    "hook_session": {"given_ids": "given", "turn_digests": "said"},
    "subscription": {"lease_until": "held_until"},
}


NEW_COLUMNS = {"usage": ("task", "outcome", "spent")}
"""Columns that migration 33 added. Before, rows with a task were in the table llm_call."""
MODEL_CALL_COLUMNS = {
    **{name: name for name in ("id", "day", "agent", "task", "model", "spent", "input_tokens", "output_tokens")},
    "cost": "cost",
    "outcome": "outcome",
    "cache_read_tokens": "cached_tokens",
}


class OldStore(NamedTuple):
    """A session in an old store, how to list the columns of a table, and how to give it a key."""

    session: Session
    list_columns: Callable[[str], list[tuple[Any, ...]]]
    put_key: Callable[[bytes], None]


def old_name(table: str, column: str) -> str:
    return {**OLD_COLUMNS["*"], **OLD_COLUMNS.get(table, {})}.get(column, column)


def write_old_store(new: Store, address: str, last: int) -> None:
    """Write a store with the migrations up to `last`, with the rows of a current one that its tables can hold."""
    with new.reading() as source, begin_old_store(address, last) as old:
        for table in tables():
            copy_rows(table, table.rows(source, None), old)
        index_texts(old.session, source)
        if key := new.signing_key(source):
            old.put_key(key)


def copy_rows(table: Table, rows: Sequence[tuple[Any, ...]], old: OldStore) -> None:
    """Insert rows of a current table under its old names, without columns that came later."""
    name = OLD_TABLES.get(table.name, table.name)
    there = {str(column) for (column,) in old.list_columns(name)}
    names = {column: old_name(table.name, column) for column in table.columns if old_name(table.name, column) in there}
    named = [dict(zip(table.columns, row, strict=True)) for row in rows]
    if name == "usage" and "task" not in there:
        if old.list_columns("llm_call"):
            insert_rows(MODEL_CALL_COLUMNS, "llm_call", [row for row in named if row["task"] is not None], old)
        named = [row for row in named if row["task"] is None]
    insert_rows(names, name, named, old)


def insert_rows(names: dict[str, str], table: str, rows: Sequence[dict[str, Any]], old: OldStore) -> None:
    """Insert columns of rows under their names in the old table."""
    if names and rows:
        insert = f"insert into {table} ({', '.join(names.values())}) values ({', '.join(f':{one}' for one in names)})"
        old.session.execute_sql(insert, [{one: bind(one, row[one]) for one in names} for row in rows])


def bind(column: str, value: Any) -> Any:
    return Vector(value) if column == "vector" else value


def index_texts(old: Session, source: Session) -> None:
    """Index the texts of memories as they are; a data migration adds the rest."""
    for id, state, *texts in source.query_sql("select id, state, title, content, tags from memory", {}):
        old.index_memory(id, None if state == "deleted" else SearchTexts(*texts))
    old.do("memory_sync_rowno")


@contextmanager
def begin_old_store(address: str, last: int) -> Iterator[OldStore]:
    """Create the tables of an older release and fill them, in one transaction."""
    with begin_old_schema(address, last) if "://" in address else begin_old_file(Path(address), last) as old:
        yield old


def record(session: Session, migration: migrations.Migration) -> None:
    session.do("migration_add", **migration.record, applied_at=0)


@contextmanager
def begin_old_file(path: Path, last: int) -> Iterator[OldStore]:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    with closing(open_database(str(path))) as connection:
        session = sqlite_engine.SqliteSession(connection)
        connection.execute("begin immediate")
        connection.execute(migrations.to_sqlite(migrations.TABLE + ";"))
        for migration in migrations.load_migrations(*sqlite_engine.FOLDERS)[:last]:
            connection.execute(migrations.to_sqlite(migration.script)).fetchall()
            record(session, migration)
        columns, store = "select name from pragma_table_info(:name)", sqlite_engine.SqliteStore(path)
        yield OldStore(
            session,
            lambda table: session.query_sql(columns, {"name": table}),
            lambda key: store.make_signing_key(session, key),
        )
        connection.execute(f"pragma application_id={sqlite_engine.APPLICATION_ID}; pragma user_version={last}; commit")


@contextmanager
def begin_old_schema(url: str, last: int) -> Iterator[OldStore]:
    with postgres_engine.connect(parse_address(url, Path())) as connection:
        address = prepare_database(connection, parse_address(url, Path()))
        with connection.transaction():
            session = postgres_engine.PostgresSession(connection)
            connection.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(address.schema)))
            connection.execute(address.path_setting)
            connection.execute(migrations.to_postgres(migrations.TABLE + ";"))
            connection.execute(sql.SQL("comment on table migration is {}").format(MARK))
            for migration in migrations.load_migrations(*postgres_engine.FOLDERS)[:last]:
                connection.execute(migrations.to_postgres(migration.script), prepare=False)
                record(session, migration)
            columns = f"select column_name from information_schema.columns where table_schema = '{address.schema}'"
            yield OldStore(
                session,
                lambda table: session.query_sql(f"{columns} and table_name = :name", {"name": table}),
                lambda key: session.do("node_key_put", key=key),
            )
