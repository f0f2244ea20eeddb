"""The doctor finds what is wrong, says how bad it is, and changes nothing."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest

import holdfast
from holdfast.domain.errors import StoreDamaged
from holdfast.domain.moment import DAY, SECOND
from holdfast.services import backup


@pytest.fixture
def filled(hold: holdfast.Holdfast) -> holdfast.Holdfast:
    for number in range(40):
        hold.store(title=f"Title {number}", content=f"the quick brown fox number {number} " * 20, tags=["fox"])
    return hold


def severities(hold: holdfast.Holdfast) -> dict[str, str]:
    return {section.name: section.severity for section in hold.doctor().sections}


def said(hold: holdfast.Holdfast) -> str:
    return " | ".join(finding.what for section in hold.doctor().sections for finding in section.findings)


def by_hand(db: str, sql: str) -> None:
    """Change the file past Holdfast."""
    connection = apsw.Connection(db)
    connection.set_busy_timeout(5000)
    connection.execute(sql).fetchall()
    connection.close()


WELL = dict.fromkeys(("storage", "full_text", "journal", "clock", "schema", "counts", "backups"), "ok")


def test_a_fresh_store_is_well(hold: holdfast.Holdfast) -> None:
    assert (hold.doctor().status, severities(hold)) == ("ok", WELL)


def test_a_store_in_use_is_well_and_its_facts_are_told(filled: holdfast.Holdfast, db: str) -> None:
    filled.archive(ids=[filled.list().memories[0].id])
    filled.backup()
    facts = {section.name: section.facts for section in filled.doctor().sections}
    assert severities(filled) == WELL
    assert facts["counts"]["memories"] == {"live": 39, "archived": 1}
    assert (facts["journal"]["entries"], facts["backups"]["snapshots"], facts["storage"]["path"]) == (41, 1, db)


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
def test_a_full_text_index_that_differs_from_the_rows_is_found(filled: holdfast.Holdfast, db: str, sql: str) -> None:
    by_hand(db, sql)
    assert (filled.doctor().status, severities(filled)["full_text"]) == ("critical", "critical")


@pytest.mark.parametrize(
    "sql",
    [
        "update memory set content = 'forged', content_hash = content_hash where rowno = 3",
        "update memory set scope = 'private' where rowno = 3",
        "update journal set body = replace(body, 'quick', 'slow!') where seq = 5",
        "delete from journal where seq = 40",
        "delete from memory_tag where memory = (select id from memory where rowno = 3)",
    ],
    ids=["content", "scope", "journal", "tail", "tag"],
)
def test_a_row_edited_by_hand_is_found(filled: holdfast.Holdfast, db: str, sql: str) -> None:
    by_hand(db, sql)
    assert (filled.doctor().status, severities(filled)["journal"]) == ("critical", "critical")


def test_a_row_that_points_to_nothing_is_found(filled: holdfast.Holdfast, db: str) -> None:
    by_hand(db, "pragma foreign_keys=off; insert into access values ('nobody', 'x', 1, 1)")
    assert severities(filled)["storage"] == "critical"
    assert "a row of access points to nothing in memory" in said(filled)


def test_a_page_overwritten_by_chance_is_found(filled: holdfast.Holdfast, db: str) -> None:
    filled.close()
    with open(db, "r+b") as file:
        file.seek(os.path.getsize(db) // 2 // 4096 * 4096)
        file.write(b"\xff" * 4096)
    with holdfast.open(db, agent_id="ai:tester@here") as hurt:
        assert hurt.doctor().status == "critical"


@pytest.mark.parametrize("pages", [1, 5, 20])
def test_a_file_cut_short_is_a_clear_error_and_left_as_it_is(filled: holdfast.Holdfast, db: str, pages: int) -> None:
    filled.close()
    os.truncate(db, os.path.getsize(db) - pages * 4096)
    before = Path(db).read_bytes()
    with pytest.raises(StoreDamaged, match="restore a backup"), holdfast.open(db, agent_id="ai:tester@here") as hurt:
        hurt.doctor()
    assert Path(db).read_bytes() == before


def test_a_file_and_a_key_that_others_can_read_are_found(filled: holdfast.Holdfast, db: str) -> None:
    os.chmod(db, 0o644)
    os.chmod(f"{db}.key", 0o640)
    assert (filled.doctor().status, severities(filled)) == ("warn", {**WELL, "storage": "warn"})
    assert said(filled).count("can be read by others") == 2


def test_a_directory_that_anybody_writes_to_is_found(filled: holdfast.Holdfast, tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o777)
    assert severities(filled)["storage"] == "warn"


@pytest.mark.parametrize(("behind", "severity"), [(60 * SECOND, "ok"), (DAY, "warn"), (8 * DAY, "critical")])
def test_a_clock_that_went_back_is_found(tmp_path: Path, behind: int, severity: str) -> None:
    times = {"now": 1_790_000_000 * SECOND}
    with holdfast.open(str(tmp_path / "clock.db"), agent_id="ai:tester@here", now=lambda: times["now"]) as hold:
        hold.store(title="One", content="first")
        times["now"] -= behind
        assert severities(hold)["clock"] == severity


def test_a_snapshot_that_cannot_be_restored_is_found(filled: holdfast.Holdfast) -> None:
    backup.manifest_of(Path(filled.backup().path)).unlink()
    assert severities(filled) == {**WELL, "backups": "warn"}


def test_the_doctor_changes_no_byte(filled: holdfast.Holdfast, db: str) -> None:
    def digests() -> dict[str, Any]:
        return {end: sha256(Path(db + end).read_bytes()).hexdigest() for end in ("", "-wal", ".key")}

    before = digests()
    filled.doctor()
    assert digests() == before


def test_the_doctor_neither_waits_for_a_writer_nor_keeps_one_waiting(filled: holdfast.Holdfast, db: str) -> None:
    writer = apsw.Connection(db)
    writer.execute("begin immediate")
    assert filled.doctor().status == "ok"
    writer.execute("rollback")
    writer.close()
