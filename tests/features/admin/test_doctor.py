"""The doctor reports faults with their severity and changes nothing."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

import holdfast
from engines import raw_connection
from holdfast.app import choose_embedder
from holdfast.features.admin import backup
from holdfast.features.embeddings.minilm import MiniLm
from holdfast.features.sync.quorum import pending_acks as ack_store
from holdfast.kernel.journal import journal
from holdfast.kernel.timestamps import DAY, SECOND
from holdfast.settings import Settings


@pytest.fixture
def full_store(hold: holdfast.Holdfast) -> holdfast.Holdfast:
    for number in range(40):
        hold.store(title=f"Title {number}", content=f"the quick brown fox number {number} " * 20, tags=["fox"])
    return hold


def severities(hold: holdfast.Holdfast) -> dict[str, str]:
    return {section.name: section.severity for section in hold.doctor().sections}


def list_findings(hold: holdfast.Holdfast) -> str:
    return " | ".join(finding.what for section in hold.doctor().sections for finding in section.findings)


def by_hand(db: str, sql: str) -> None:
    """Change the tables without Holdfast."""
    if db.startswith("postgresql:"):
        with raw_connection(db) as connection:
            connection.execute(sql)
        return
    with closing(apsw.Connection(db)) as file:
        file.set_busy_timeout(5000)
        file.execute(sql).fetchall()


@pytest.fixture
def well(engine: str) -> dict[str, str]:
    """Return the severities of a healthy store. The test server has fsync off, which is a finding."""
    names = ["storage", "full_text", "journal", "clock", "schema", "counts", "vectors", "replication", "subscriptions"]
    sections = dict.fromkeys([*names, "backups"], "ok")
    return sections if engine == "sqlite" else {**sections, "storage": "warn"}


def test_a_fresh_store_is_healthy(engine: str, hold: holdfast.Holdfast, well: dict[str, str]) -> None:
    assert severities(hold) == well
    assert (hold.doctor().status, "fsync is off" in list_findings(hold)) == (("ok", False), ("warn", True))[
        engine == "postgres"
    ]


def test_a_store_in_use_is_healthy_and_its_figures_are_reported(
    full_store: holdfast.Holdfast, well: dict[str, str]
) -> None:
    full_store.archive(ids=[full_store.list().memories[0].id])
    full_store.backup()
    facts = {section.name: section.facts for section in full_store.doctor().sections}
    assert severities(full_store) == well
    assert facts["counts"]["memories"] == {"live": 39, "archived": 1}
    assert (facts["journal"]["entries"], facts["backups"]["snapshots"]) == (41, 1)
    assert facts["storage"]["path"] == full_store.ctx.store.path


def test_pending_replication_is_reported(full_store: holdfast.Holdfast, well: dict[str, str]) -> None:
    ctx = full_store.ctx
    with ctx.store.transaction() as session:
        places, origin = [journal.Position(1, b""), journal.Position(2, b"")], journal.get_head(session).origin
        ack_store.mark_pending(session, places, origin, ctx.now() - 60 * SECOND)
    assert severities(full_store) == {**well, "replication": "warn"}
    assert "2 changes have waited for acknowledgements" in list_findings(full_store)


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
def test_a_manually_edited_row_is_found(full_store: holdfast.Holdfast, db: str, sql: str) -> None:
    by_hand(db, sql)
    assert (full_store.doctor().status, severities(full_store)["journal"]) == ("critical", "critical")


@pytest.mark.parametrize(("behind", "severity"), [(60 * SECOND, "ok"), (DAY, "warn"), (8 * DAY, "critical")])
def test_a_clock_set_back_is_found(db: str, behind: int, severity: str) -> None:
    times = {"now": 1_790_000_000 * SECOND}
    with holdfast.open(db, agent_id="ai:tester@here", now=lambda: times["now"]) as hold:
        hold.store(title="One", content="first")
        times["now"] -= behind
        assert severities(hold)["clock"] == severity


@pytest.mark.parametrize(
    ("broken", "severity", "told"),
    [
        (
            False,
            "warn",
            "40 of 40 memories have no embeddings and are found by keywords only. Run `holdfast admin reembed`",
        ),
        (True, "critical", "Embeddings cannot be computed; recall uses keywords only. The embedding model's file"),
    ],
    ids=["lacking", "broken"],
)
def test_missing_embeddings_and_an_unloadable_model_are_found(
    full_store: holdfast.Holdfast, tmp_path: Path, *, broken: bool, severity: str, told: str
) -> None:
    full_store.ctx = replace(full_store.ctx, embedder=MiniLm(folder=tmp_path) if broken else MiniLm())
    (found,) = [section for section in full_store.doctor().sections if section.name == "vectors"]
    assert (found.severity, found.findings[0].what[: len(told)]) == (severity, told)
    assert found.facts == {"model": MiniLm.model, "remote": False, "memories": 40, "without": 40}
    if not broken:
        full_store.reembed()
        assert severities(full_store)["vectors"] == "ok"


def test_an_embedding_provider_is_reported_by_model_only(full_store: holdfast.Holdfast) -> None:
    away = choose_embedder(Settings(embedder="ollama", embedding_url="http://127.0.0.1:1"))
    full_store.ctx = replace(full_store.ctx, embedder=away)
    (found,) = [section for section in full_store.doctor().sections if section.name == "vectors"]
    assert (found.severity, found.facts["model"], found.facts["remote"]) == ("warn", "nomic-embed-text", True)


def test_an_unrestorable_snapshot_is_found(full_store: holdfast.Holdfast, well: dict[str, str]) -> None:
    backup.manifest_of(Path(full_store.backup().path)).unlink()
    assert severities(full_store) == {**well, "backups": "warn"}


def test_the_doctor_changes_nothing(full_store: holdfast.Holdfast) -> None:
    def all_of_it() -> list[Any]:
        return [full_store.events(limit=1000), full_store.export()["memories"], full_store.verify()]

    before = all_of_it()
    full_store.doctor()
    assert all_of_it() == before


def test_the_doctor_neither_waits_for_a_writer_nor_blocks_one(
    full_store: holdfast.Holdfast, db: str, well: dict[str, str]
) -> None:
    with holdfast.open(db) as other, other.ctx.store.transaction():
        assert severities(full_store) == well
