"""Bundles are verified completely, applied once, and never leave a gap."""

from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.features.sync import read_changes as telling
from holdfast.features.sync.compact_journal import compact
from holdfast.kernel.errors import Conflict, Forbidden, HoldfastError, Invalid

Make = Callable[..., holdfast.Holdfast]
SKILL = "---\nname: deploy\ndescription: How.\n---\nPush the button.\n"


@pytest.fixture
def full(here: holdfast.Holdfast) -> holdfast.Holdfast:
    first = here.store(title="First", content="Said first.", tier="long")
    second = here.store(title="Second", content="Said second.", tier="long")
    here.update(id=first.id, content="Said better.")
    here.link(source_id=first.id, target_id=second.id)
    here.skill_register(inline_skill=SKILL)
    return here


@pytest.fixture
def bundle(full: holdfast.Holdfast, tmp_path: Path) -> Path:
    full.sync_export_bundle(file=str(tmp_path / "all.bundle"))
    return tmp_path / "all.bundle"


def digest(store: holdfast.Holdfast) -> str:
    with store.ctx.reading() as session:
        return telling.compute_digest(session)


def test_a_bundle_transfers_everything_and_a_second_import_nothing(
    full: holdfast.Holdfast, there: holdfast.Holdfast, bundle: Path
) -> None:
    first = there.sync_import_bundle(file=str(bundle), trust_sender=True)
    head = there.verify().head
    again = there.sync_import_bundle(file=str(bundle))
    assert (first.imported, first.links, first.rejected, again.imported) == (2, 1, 0, 0)
    assert digest(there) == digest(full)
    assert there.verify().intact
    assert there.verify().head == head
    assert there.sync(remote=full.settings.db, direction="pull").imported == 0
    assert bundle.stat().st_mode & 0o077 == 0


def test_a_dry_run_reports_what_a_bundle_would_import(there: holdfast.Holdfast, bundle: Path) -> None:
    planned = there.sync_import_bundle(file=str(bundle), trust_sender=True, dry_run=True)
    assert (planned.imported, there.stats().total) == (2, 0)


def test_consecutive_bundles_equal_a_single_one(
    full: holdfast.Holdfast, there: holdfast.Holdfast, bundle: Path, tmp_path: Path
) -> None:
    first = there.sync_import_bundle(file=str(bundle), trust_sender=True)
    full.delete(id=full.list().memories[0].id)
    written = full.sync_export_bundle(file=str(tmp_path / "more.bundle"), since=first.next)
    assert written.changes == 1
    assert there.sync_import_bundle(file=str(tmp_path / "more.bundle")).deletes == 1
    assert digest(there) == digest(full)


def test_a_bundle_with_a_gap_is_refused_and_names_what_is_missing(
    full: holdfast.Holdfast, there: holdfast.Holdfast, tmp_path: Path
) -> None:
    full.sync_export_bundle(file=str(tmp_path / "late.bundle"), since=3)
    with pytest.raises(Conflict, match=r"changes 1 to 3 of .*--since 0"):
        there.sync_import_bundle(file=str(tmp_path / "late.bundle"), trust_sender=True)
    assert there.stats().total == 0


def test_changes_received_another_way_close_the_gap(
    full: holdfast.Holdfast, there: holdfast.Holdfast, make: Make, tmp_path: Path
) -> None:
    third = make()
    third.sync(remote=full.settings.db)
    there.sync(remote=third.settings.db)
    next_one = full.store(title="Third", content="Said third.")
    full.sync_export_bundle(file=str(tmp_path / "late.bundle"), since=4)
    there.sync_import_bundle(file=str(tmp_path / "late.bundle"), trust_sender=True)
    assert there.get(id=next_one.id).content == "Said third."


def test_compacted_changes_are_bundled_as_whole_records(
    full: holdfast.Holdfast, there: holdfast.Holdfast, tmp_path: Path
) -> None:
    compact(full.ctx, 0)
    assert full.sync_export_bundle(file=str(tmp_path / "folded.bundle")).states == 1
    there.sync_import_bundle(file=str(tmp_path / "folded.bundle"), trust_sender=True)
    assert digest(there) == digest(full)


def test_bundles_are_independent_of_each_other(
    full: holdfast.Holdfast, there: holdfast.Holdfast, make: Make, tmp_path: Path
) -> None:
    compact(full.ctx, 0)
    full.sync_export_bundle(file=str(tmp_path / "folded.bundle"))
    for store in (there, make()):
        store.sync_import_bundle(file=str(tmp_path / "folded.bundle"), trust_sender=True, dry_run=True)
    other = make()
    there.sync_export_bundle(file=str(tmp_path / "empty.bundle"))
    assert other.sync_import_bundle(file=str(tmp_path / "empty.bundle"), trust_sender=True).imported == 0


def test_a_bundle_for_a_peer_respects_its_namespaces(
    full: holdfast.Holdfast, there: holdfast.Holdfast, tmp_path: Path
) -> None:
    full.store(title="Ours", content="For the team.", namespace="team", tier="long")
    full.peer_add(name="desk", token=there.peer_token().token, tell=["team"])
    first = full.sync_export_bundle(file=str(tmp_path / "team.bundle"), peer="desk")
    there.sync_import_bundle(file=str(tmp_path / "team.bundle"), trust_sender=True)
    assert {memory.content for memory in there.list().memories} == {"For the team."}
    more = full.store(title="More", content="More for the team.", namespace="team", tier="long")
    full.sync_export_bundle(file=str(tmp_path / "more.bundle"), peer="desk", since=first.next)
    there.sync_import_bundle(file=str(tmp_path / "more.bundle"))
    assert there.get(id=more.id).content == "More for the team."
    full.sync_export_bundle(file=str(tmp_path / "late.bundle"), peer="desk", since=1)
    assert there.sync_import_bundle(file=str(tmp_path / "late.bundle")).imported == 0


def test_a_bundle_of_an_unknown_sender_is_refused_unless_trusted(there: holdfast.Holdfast, bundle: Path) -> None:
    with pytest.raises(Forbidden, match="not an enrolled peer"):
        there.sync_import_bundle(file=str(bundle))


def test_a_bundle_claiming_the_name_of_a_known_store_is_refused(
    full: holdfast.Holdfast, there: holdfast.Holdfast, bundle: Path
) -> None:
    there.sync(remote=full.settings.db)
    with there.ctx.store.transaction() as session:
        session.execute_sql("update replica set public_key = :key", [{"key": bytes(32)}])
    with pytest.raises(Forbidden, match="a different key"):
        there.sync_import_bundle(file=str(bundle), trust_sender=True)


def test_a_store_does_not_import_its_own_bundle(full: holdfast.Holdfast, bundle: Path) -> None:
    with pytest.raises(Conflict, match="itself"):
        full.sync_import_bundle(file=str(bundle))


def test_a_bundle_that_cannot_be_written_leaves_no_file(full: holdfast.Holdfast, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(HoldfastError):
        full.sync_export_bundle(file=str(tmp_path / "taken"))
    with pytest.raises(Invalid):
        full.sync_export_bundle(file=str(tmp_path / "x.bundle"), since=1000)
    assert [path.name for path in tmp_path.iterdir() if "bundle" in path.name or path.name.startswith(".")] == []
