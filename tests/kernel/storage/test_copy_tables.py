"""Copying a store covers every table of the schema automatically."""

from contextlib import closing
from pathlib import Path

import pytest

from holdfast.kernel.storage import migrations
from holdfast.kernel.storage.copy_destinations import tables
from holdfast.kernel.storage.copy_tables import Table, copy_all_rows, delete_all_rows
from holdfast.kernel.storage.open_by_address import open_copy
from holdfast.kernel.storage.port import Store
from holdfast.kernel.storage.sqlite import copy_store as sqlite_copy_store

OF_THE_ENGINE = {
    "postgres": {"memory_text", "node_key"},
    "sqlite": {"binary_index", "binary_index_pack", "embedding_removed"},
}
"""Tables of one engine only: words follow from memories, bits from vectors, the key from the store."""
CATALOG = {
    "postgres": "select tablename from pg_tables where schemaname = current_schema",
    "sqlite": "select name from pragma_table_list where type = 'table' and schema = 'main' and name not like 'sqlite%'",
}


def test_every_table_is_copied_except_engine_specific_ones(store: Store, engine: str) -> None:
    with store.reading() as session:
        there = {name for (name,) in session.query_sql(CATALOG[engine], {})}
    assert {table.name for table in tables()} == there - OF_THE_ENGINE[engine] - {"migration"}


def test_every_column_is_copied(store: Store, engine: str) -> None:
    with store.reading() as session:
        for table in tables():
            if engine == "postgres":
                asked = "select column_name from information_schema.columns where table_schema = current_schema"
                found = session.query_sql(f"{asked} and table_name = '{table.name}'", {})
            else:
                found = session.query_sql(f"select name from pragma_table_info('{table.name}')", {})
            assert set(table.columns) == {name for (name,) in found}


def test_a_table_of_a_later_migration_is_copied_automatically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations" / "9999_later.sql").write_text(
        "create table later (\n  place integer not null,\n  memory text not null references memory (id),\n"
        "  primary key (memory, place)\n);\n"
    )
    monkeypatch.setattr(sqlite_copy_store, "FOLDERS", (*sqlite_copy_store.FOLDERS, tmp_path))
    found = sqlite_copy_store.tables.__wrapped__()
    assert migrations.load_migrations(*sqlite_copy_store.FOLDERS)[-1].name == "later"
    assert Table("later", ("place", "memory"), ("memory", "place")) in found
    names = [table.name for table in found]
    assert names.index("memory") < names.index("later")


def test_a_table_is_copied_after_those_it_references() -> None:
    names = [table.name for table in tables()]
    assert names[0] == "journal_head"
    assert all(
        names.index("memory") < names.index(name) for name in ("memory_tag", "link", "memory_access", "embedding")
    )


def test_an_emptied_and_refilled_store_is_unchanged(store: Store, tmp_path: Path) -> None:
    with store.transaction() as session:
        session.do("meta_put", name="colour", body="blue")
    store.snapshot(tmp_path / "copy.db")
    before = rows_of(store)
    with store.transaction() as session:
        delete_all_rows(session, tables())
        assert {table.name: table.count(session) for table in tables() if table.count(session)} == {"journal_head": 1}
    with closing(open_copy(tmp_path / "copy.db")) as copy, copy.reading() as source, store.transaction() as session:
        copy_all_rows(session, source, tables())
    assert (rows_of(store), store.faults()) == (before, [])


def rows_of(store: Store) -> dict[str, object]:
    with store.reading() as session:
        return {table.name: table.rows(session, None) for table in tables()}
