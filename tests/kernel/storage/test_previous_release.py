"""A store that the previous release wrote is migrated without a change to any row, and goes on.

`releases/0031.zip` has a file with something in every table, written by the last release before migration 32, whose
tables and columns had other names.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import apsw
import pytest
from old_stores import MODEL_CALL_COLUMNS, NEW_COLUMNS, OLD_TABLES, begin_old_schema, copy_rows, old_name

import holdfast
from engines import raw_connection
from holdfast.features.sync.exchange import sync_stores
from holdfast.kernel import errors
from holdfast.kernel.storage.copy_destinations import tables
from holdfast.kernel.storage.copy_tables import Table
from holdfast.kernel.storage.open_by_address import open_store
from holdfast.kernel.storage.port import SearchTexts
from holdfast.kernel.timestamps import DAY, parse_timestamp

RELEASE = Path(__file__).parent / "releases" / "0031.zip"
Rows = list[tuple[Any, ...]]


class Clock:
    """A clock that goes on from a day after the store was written."""

    at = parse_timestamp("2026-02-01T09:00:00Z", "at")

    def __call__(self) -> int:
        self.at += 1000
        return self.at


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    """The file as the previous release left it."""
    with ZipFile(RELEASE) as packed:
        packed.extractall(tmp_path)
    for file in tmp_path.iterdir():
        file.chmod(0o600)
    return tmp_path / "memory.db"


@pytest.fixture
def old_rows(old_file: Path) -> dict[str, Rows]:
    """The rows of every table, by its name of today."""
    with closing(apsw.Connection(f"file:{old_file}?mode=ro", apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READONLY)) as raw:
        return {table.name: read_old_rows(raw, table) for table in tables()}


def read_old_rows(raw: apsw.Connection, table: Table) -> Rows:
    new = NEW_COLUMNS.get(table.name, ())
    columns = ", ".join("null" if column in new else old_name(table.name, column) for column in table.columns)
    order = ", ".join(old_name(table.name, column) for column in table.key)
    rows = raw.execute(f"select {columns} from {OLD_TABLES.get(table.name, table.name)} order by {order}").fetchall()
    return sorted([*rows, *read_model_calls(raw, table)]) if table.name == "usage" else rows


def read_model_calls(raw: apsw.Connection, usage: Table) -> Rows:
    """The calls of the model, which had a table of their own, as rows of the ledger of usage."""
    columns = MODEL_CALL_COLUMNS
    made = []
    for row in raw.execute(f"select {', '.join(columns.values())} from llm_call"):
        call = dict(zip(columns, row, strict=True))
        given = {"at": call["day"] * DAY, "principal": call["agent"], "session": "", "cache_write_tokens": 0}
        made.append(tuple((dict.fromkeys(usage.columns) | {"state": "kept"} | given | call).values()))
    return made


@pytest.fixture
def old_store(engine: str, db: str, old_file: Path, old_rows: dict[str, Rows]) -> str:
    """The address of a store of the previous release, on either engine."""
    if engine == "sqlite":
        return str(old_file)
    with begin_old_schema(db, 31) as old:
        for table in tables():
            copy_rows(table, old_rows[table.name], old)
        memory = next(table for table in tables() if table.name == "memory")
        for row in old_rows["memory"]:
            one = dict(zip(memory.columns, row, strict=True))
            texts = SearchTexts(one["title"], one["content"], one["tags"], one["bigrams"])
            old.session.index_memory(one["id"], None if one["state"] == "deleted" else texts)
        old.session.do("memory_sync_rowno")
        old.put_key(Path(f"{old_file}.key").read_bytes())
    return db


@pytest.fixture
def open_at() -> Iterator[Callable[[str], holdfast.Holdfast]]:
    opened, clock = list[holdfast.Holdfast](), Clock()

    def open_at(address: str) -> holdfast.Holdfast:
        opened.append(holdfast.open(address, agent_id="ai:tester@here", now=clock))
        return opened[-1]

    yield open_at
    for one in opened:
        one.close()


def test_the_file_of_the_previous_release_has_rows_in_every_kind_of_table(old_rows: dict[str, Rows]) -> None:
    filled = {name for name, rows in old_rows.items() if rows}
    assert {"memory", "link", "embedding", "peer", "conflict", "compaction_point", "compacted_record"} <= filled
    assert OLD_TABLES.keys() - filled == set()
    assert any(row[-1] is not None for row in old_rows["usage"])


def test_no_row_is_changed_by_the_new_names(old_store: str, old_rows: dict[str, Rows]) -> None:
    for _ in range(2):
        with closing(open_store(old_store)) as store:
            with store.reading() as session:
                assert {table.name: table.rows(session, None) for table in tables()} == old_rows
            assert store.faults() == []


def test_a_store_of_the_previous_release_goes_on(
    old_store: str, tmp_path: Path, open_at: Callable[[str], holdfast.Holdfast]
) -> None:
    hold = open_at(old_store)
    assert hold.verify().intact
    assert "Memory 10" in [one.title for one in hold.recall(context="number 10 of many").memories]
    assert "Odd 0" in [one.title for one in hold.search("Ελληνικά").results]
    (conflict,) = hold.conflicts().conflicts
    other = open_at(str(tmp_path / "other" / "memory.db"))
    sync_stores(other.ctx, hold.ctx, "pull", trust_source=True)
    assert [one.id for one in other.conflicts().conflicts] == [conflict.id]
    assert other.list(limit=500).count > 20
    hold.conflicts_resolve(id=conflict.id, keep="both")
    hold.store(title="Afterwards", content="Stored by this release.", embedding={"model": "own", "vector": [1, 2, 3]})
    other.store(title="Elsewhere", content="Stored by a new store.")
    sync_stores(other.ctx, hold.ctx, "merge", trust_source=True)
    for one in (hold, other):
        assert not one.conflicts().conflicts
        assert {"Afterwards", "Elsewhere"} <= {found.title for found in one.search("stored").results}
        assert one.verify().intact
        assert one.ctx.store.faults() == []


def test_a_store_of_the_previous_release_is_compacted_and_backed_up(
    old_store: str, tmp_path: Path, open_at: Callable[[str], holdfast.Holdfast]
) -> None:
    hold = open_at(old_store)
    hold.peer_remove(name="desk")
    for subscription in hold.subscription_list().subscriptions:
        hold.unsubscribe(id=subscription.id)
    assert hold.compact(older_than=0).folded > 0
    snapshot = hold.backup(to=str(tmp_path / "backups")).path
    assert hold.verify().intact
    copy = open_at(snapshot)
    assert copy.ctx.store.faults() == []
    assert copy.stats().total == hold.stats().total


@pytest.mark.parametrize("engine", ["sqlite"])
def test_the_previous_release_can_use_the_backup(old_store: str, old_rows: dict[str, Rows]) -> None:
    open_store(old_store).close()
    (backup,) = Path(old_store).parent.glob("memory.db.before-v32-*")
    with closing(apsw.Connection(str(backup))) as raw:
        assert raw.pragma("user_version") == 31
        assert {table.name: read_old_rows(raw, table) for table in tables()} == old_rows


LATER = (
    "alter table journal_head rename to later",
    "alter table memory rename column visible_as to later",
    "insert into migration (number, name, checksum, applied_at) values (9999, 'later', 'x', 0)",
)
"""What a later release may do to the tables."""


def test_an_open_store_reports_that_a_later_release_migrated_it(engine: str, db: str) -> None:
    with holdfast.open(db, agent_id="ai:tester@here") as hold:
        id = hold.store(title="Before", content="Stored before the migration.").id
        if engine == "sqlite":
            with closing(apsw.Connection(db)) as raw:
                raw.execute(f"begin immediate; {'; '.join(LATER)}; pragma user_version = 9999; commit").fetchall()
        else:
            with raw_connection(db) as later:
                for statement in LATER:
                    later.execute(statement)
        for _ in range(2):
            for act in (
                lambda: hold.store(title="After", content="Not to be stored."),
                lambda: hold.recall(context="migration"),
                lambda: hold.get(id=id),
            ):
                with pytest.raises(errors.NewerStore):
                    act()
