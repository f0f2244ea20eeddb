"""Findings of the doctor in a store that is one file."""

import os
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest
from test_doctor import by_hand, full_store, list_findings, severities, well

import holdfast
from holdfast.kernel.errors import StoreDamaged

__all__ = ["full_store", "well"]


@pytest.fixture
def engine() -> str:
    return "sqlite"


@pytest.mark.parametrize(
    "sql",
    [
        "delete from memory_text_data where id > 10",
        "update memory_text_data set block = x'0000' where id > 10",
        "insert into memory_text (memory_text) values ('delete-all')",
        "insert into memory_text (rowid, title, content, tags) values (1, 'ghost', 'ghost', '')",
        "insert into memory_text (memory_text, rowid, title, content, tags)"
        " select 'delete', rowno, title, content, tags from memory where rowno = 7",
    ],
    ids=["blocks gone", "blocks changed", "emptied", "words too many", "a row left out"],
)
def test_a_full_text_index_out_of_sync_with_its_rows_is_found(full_store: holdfast.Holdfast, db: str, sql: str) -> None:
    by_hand(db, sql)
    assert (full_store.doctor().status, severities(full_store)["full_text"]) == ("critical", "critical")


def test_a_dangling_row_is_found(full_store: holdfast.Holdfast, db: str) -> None:
    by_hand(db, "pragma foreign_keys=off; insert into memory_access values ('nobody', 'x', 1, 1)")
    assert severities(full_store)["storage"] == "critical"
    assert "a row of memory_access references a missing row of memory" in list_findings(full_store)


def overwrite(db: str, name: str) -> None:
    """Overwrite the last page of a table or an index."""
    with closing(apsw.Connection(db)) as file:
        ((page,),) = file.execute("select max(pageno) from dbstat where name = ?", (name,)).fetchall()
    assert isinstance(page, int)
    with open(db, "r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)


@pytest.mark.parametrize("name", ["memory", "journal", "memory_text_data", "sqlite_autoindex_memory_1"])
def test_a_randomly_overwritten_page_is_found(full_store: holdfast.Holdfast, db: str, name: str) -> None:
    full_store.close()
    overwrite(db, name)
    with holdfast.open(db, agent_id="ai:tester@here") as hurt:
        assert hurt.doctor().status == "critical"


def test_an_overwritten_schema_page_is_a_clear_error(full_store: holdfast.Holdfast, db: str) -> None:
    full_store.close()
    overwrite(db, "sqlite_schema")
    before = Path(db).read_bytes()
    with pytest.raises(StoreDamaged, match="restore a backup"):
        holdfast.open(db, agent_id="ai:tester@here")
    assert Path(db).read_bytes() == before


@pytest.mark.parametrize("pages", [1, 5, 20])
def test_a_truncated_file_is_a_clear_error_and_left_unchanged(
    full_store: holdfast.Holdfast, db: str, pages: int
) -> None:
    full_store.close()
    os.truncate(db, os.path.getsize(db) - pages * 4096)
    before = Path(db).read_bytes()
    with pytest.raises(StoreDamaged, match="restore a backup"), holdfast.open(db, agent_id="ai:tester@here") as hurt:
        hurt.doctor()
    assert Path(db).read_bytes() == before


def test_a_world_readable_file_or_key_is_found(full_store: holdfast.Holdfast, db: str, well: dict[str, str]) -> None:
    os.chmod(db, 0o644)
    os.chmod(f"{db}.key", 0o640)
    assert (full_store.doctor().status, severities(full_store)) == ("warn", {**well, "storage": "warn"})
    assert list_findings(full_store).count("Other users can read") == 2


def test_a_world_writable_directory_is_found(full_store: holdfast.Holdfast, tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o777)
    assert severities(full_store)["storage"] == "warn"


def test_the_doctor_changes_no_byte(full_store: holdfast.Holdfast, db: str) -> None:
    def digests() -> dict[str, Any]:
        return {end: sha256(Path(db + end).read_bytes()).hexdigest() for end in ("", "-wal", ".key")}

    before = digests()
    full_store.doctor()
    assert digests() == before
