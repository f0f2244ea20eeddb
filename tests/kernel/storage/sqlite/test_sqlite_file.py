"""File-specific cases: a replaced or missing file, a key file, locks."""

import os
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from meta_table import put, read
from processes import at_once

from holdfast.app import Holdfast
from holdfast.kernel.errors import StoreUnreachable
from holdfast.kernel.storage.open_by_address import open_store
from holdfast.kernel.storage.port import Store
from holdfast.kernel.storage.sqlite import connection as sqlite_connection
from holdfast.kernel.storage.sqlite import engine as sqlite_engine
from holdfast.kernel.storage.sqlite import open_store as sqlite_open_store


@pytest.fixture
def engine() -> str:
    return "sqlite"


def test_a_replaced_file_is_read_and_written(open_again: Callable[[], Store], address: str, tmp_path: Path) -> None:
    store = open_again()
    put(store, colour="blue")
    store.snapshot(tmp_path / "copy.db")
    put(store, colour="red")
    for beside in ("-wal", "-shm"):
        Path(address + beside).unlink()
    os.replace(tmp_path / "copy.db", address)
    assert read(store) == {"colour": "blue"}
    put(store, shape="round")
    assert read(open_again()) == {"colour": "blue", "shape": "round"}


def test_a_store_with_a_deleted_file_acknowledges_nothing(store: Store, address: str) -> None:
    put(store, colour="blue")
    Path(address).unlink()
    with pytest.raises(StoreUnreachable):
        put(store, colour="red")
    with pytest.raises(StoreUnreachable):
        read(store)


def test_the_key_file_is_private_to_its_owner(hold: Holdfast, address: str) -> None:
    hold.store(title="One", content="first")
    assert Path(f"{address}.key").stat().st_mode & 0o777 == 0o600


# Processes that open one file


def test_a_store_created_concurrently_is_not_mistaken_for_a_foreign_file(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process runs as far as possible between our checks of mark and version."""
    looking, other = threading.current_thread(), threading.Thread(target=lambda: open_store(address).close())

    def trace(cursor: apsw.Cursor, sql: str, bindings: Any) -> bool:
        if "user_version" in sql and threading.current_thread() is looking and other.ident is None:
            other.start()
            other.join(0.5)
        return True

    def hook(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    monkeypatch.setattr(apsw, "connection_hooks", [hook])
    open_store(address).close()
    other.join()


def test_opening_waits_for_a_new_file_locked_by_another(address: str) -> None:
    """Here SQLite reports 'locked' at once, ignoring its busy handler."""
    Path(address).touch(0o600)
    holder = apsw.Connection(address)
    holder.execute("begin immediate")
    opener = threading.Thread(target=lambda: open_store(address).close())
    opener.start()
    opener.join(0.2)
    assert opener.is_alive()
    holder.execute("rollback")
    holder.close()
    opener.join()
    with closing(open_store(address)) as store, store.reading() as session:
        assert session.rows("migration_list")


def test_two_opening_processes_migrate_a_store_once(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(address).close()
    (tmp_path / "next" / "migrations").mkdir(parents=True)
    (tmp_path / "next" / "migrations" / "9000_next.sql").write_text("create table later (\n  x text\n);\n")
    monkeypatch.setattr(sqlite_open_store, "FOLDERS", (*sqlite_engine.FOLDERS, tmp_path / "next"))
    assert at_once(6, lambda number: open_store(address).close()) == [{"answer": None}] * 6
    assert len(list(tmp_path.glob("*.before-v*"))) == 1


def test_a_statement_is_prepared_once_for_all_parameters(store: Store, address: str) -> None:
    planned: list[int] = []

    def look(*what: Any) -> int:
        planned.append(limit)
        return int(apsw.SQLITE_OK)

    with closing(sqlite_connection.connect(Path(address), "")) as connection:
        connection.authorizer = look
        for limit in (5, 6, 7):
            ask = "select id from link where source = :end order by created_at limit :limit"
            connection.execute(ask, {"end": "x", "limit": limit}).fetchall()
    assert set(planned) == {5}
