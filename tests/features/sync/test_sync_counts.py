"""Sync counts affected memories, not received changes."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import deletion_scenario
import holdfast
from holdfast.features.sync import exchange as sync
from holdfast.features.sync.bundles import service as bundle

PAGES = pytest.mark.parametrize("page", [1, 500])


@PAGES
@pytest.mark.parametrize("direction", ["pull", "push", "merge"])
def test_deletions_are_counted_by_the_final_state(
    here: holdfast.Holdfast, there: holdfast.Holdfast, direction: str, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "PAGE", page)
    source, target = (here, there) if direction == "push" else (there, here)
    deletion_scenario.delete_and_edit(source, target)
    planned = here.sync(remote=there.settings.db, direction=direction, dry_run=True)
    done = here.sync(remote=there.settings.db, direction=direction)
    plan = planned.push if direction == "push" else planned.pull
    assert (planned.deletes, msgspec.structs.asdict(plan)) == (deletion_scenario.DELETED, deletion_scenario.COUNTED)
    assert deletion_scenario.read_counts(done) == deletion_scenario.read_counts(planned)
    assert {one.title for one in target.list().memories} == {"deleted before it is edited", "brought back"}


@PAGES
def test_a_bundle_counts_deletions_by_the_final_state(
    here: holdfast.Holdfast, there: holdfast.Holdfast, page: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "PAGE", page)
    deletion_scenario.delete_and_edit(here, there)
    here.sync_export_bundle(file=(file := str(tmp_path / "changes.bundle")))
    planned, done = (there.sync_import_bundle(file=file, dry_run=dry_run) for dry_run in (True, False))
    assert (planned.imported, planned.deletes) == (done.imported, done.deletes) == (4, deletion_scenario.DELETED)


@PAGES
def test_a_conflict_resolved_during_a_sync_is_not_counted(
    here: holdfast.Holdfast, there: holdfast.Holdfast, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "PAGE", page)
    here.store(title="Port", content="It is 8080.")
    there.store(title="Port", content="It is 9090.")
    there.sync(remote=here.settings.db, direction="pull", trust_source=True)
    (conflict,) = there.conflicts().conflicts
    there.conflicts_resolve(id=conflict.id, keep="shown")
    answers = [here.sync(remote=there.settings.db, direction="pull", dry_run=dry_run) for dry_run in (True, False)]
    assert [one.conflicts for one in answers] == [here.conflicts().total] * 2 == [0, 0]


def test_an_existing_conflict_is_not_counted_again(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    here.store(title="Port", content="It is 8080.")
    there.store(title="Port", content="It is 9090.")
    here.sync(remote=there.settings.db)
    there.store(title="More", content="It is new.")
    done = here.sync(remote=there.settings.db)
    assert (done.pulled, done.conflicts, here.conflicts().total) == (1, 0, 1)


def test_conflicts_in_both_directions_are_all_counted(make: Callable[..., holdfast.Holdfast]) -> None:
    here, there = make(), make()
    for store, title in ((here, "Port"), (there, "Host")):
        another = make()
        for one in (store, another):
            one.store(title=title, content=f"Said in {one.settings.db}.")
        store.sync(remote=another.settings.db)
    answers = [here.sync(remote=there.settings.db, dry_run=dry_run) for dry_run in (True, False)]
    assert [one.conflicts for one in answers] == [2, 2]


def test_a_memory_received_whole_with_its_conflict_counts_as_new(make: Callable[..., holdfast.Holdfast]) -> None:
    here, there, third = make(), make(), make()
    kept = here.store(title="Port", content="It is 8080.")
    here.sync(remote=there.settings.db)
    for store in (here, there):
        store.update(id=kept.id, content=f"Said in {store.settings.db}.")
    here.sync(remote=there.settings.db)
    assert here.compact(older_than=0).folded
    planned = third.sync(remote=here.settings.db, direction="pull", dry_run=True)
    assert (planned.pull.new, planned.pull.update, planned.conflicts) == (1, 0, 1)
    done = third.sync(remote=here.settings.db, direction="pull")
    assert (done.imported, done.conflicts) == (1, third.conflicts().total) == (1, 1)
