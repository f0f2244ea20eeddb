"""Invalidations are exported, imported, purged and undone like every record."""

from typing import Any

import pytest
from ways_to_invalidate import Remember, entries, read_notices

import holdfast
from holdfast.features.history import service as history


def test_notices_and_their_status_survive_an_export(
    clocked_store: holdfast.Holdfast, remember: Remember, tmp_path: Any, clock: Any
) -> None:
    fallen, heir, gone = remember("fallen"), remember("heir"), remember("gone")
    remember("near", fallen, gone)
    clocked_store.link(heir, fallen, relation="supersedes")
    clocked_store.delete(gone)
    first = clocked_store.invalidations(invalidated_id=fallen).invalidations[0]
    clocked_store.invalidations_dismiss(ids=[first.id], reason="no matter")
    envelope = clocked_store.export()
    with holdfast.open(str(tmp_path / "copy.db"), agent_id="ai:tester@here", now=clock) as copy:
        assert copy.call("import", {"envelope": envelope}).rejected == 0
        assert read_notices(copy) == read_notices(clocked_store)
        assert copy.export()["invalidations"] == envelope["invalidations"]
        assert copy.call("import", {"envelope": envelope}).rejected == 0
        assert read_notices(copy) == read_notices(clocked_store)
        with copy.ctx.reading() as session:
            assert history.verify(copy.ctx, session) == []


@pytest.mark.parametrize(
    "wrong",
    [{"cause": "boredom"}, {"status": "lost"}, {"hop": 0}, {"dependent_id": "nobody"}, {"resolver": "system"}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_an_imported_invalidation_that_makes_no_sense_is_rejected(
    clocked_store: holdfast.Holdfast, remember: Remember, wrong: dict[str, Any]
) -> None:
    row = {
        "invalidated_id": "gone",
        "invalidating_id": "gone",
        "dependent_id": remember("near"),
        "hop": 1,
        "cause": "deleted",
        "status": "open",
    }
    envelope = {"memories": [], "invalidations": [row | wrong]}
    assert clocked_store.call("import", {"envelope": envelope}).rejected == 1
    assert read_notices(clocked_store) == set()
    assert clocked_store.call("import", {"envelope": {"memories": [], "invalidations": [row]}}).rejected == 0
    assert len(read_notices(clocked_store)) == 1


def test_a_purge_erases_the_notices_of_a_dependent(clocked_store: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    clocked_store.delete(ground)
    (one,) = clocked_store.invalidations().invalidations
    clocked_store.invalidations_acknowledge(ids=[one.id], reason="CANARY")
    clocked_store.archive(ids=[near])
    clocked_store.archive_purge(ids=[near])
    assert read_notices(clocked_store) == set()
    assert all("CANARY" not in (entry.body or "") for entry in entries(clocked_store))
    with clocked_store.ctx.reading() as session:
        assert history.verify(clocked_store.ctx, session) == []


def test_a_flagged_invalidation_can_be_undone(clocked_store: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    clocked_store.delete(ground)
    (entry,) = entries(clocked_store)
    clocked_store.undo(entry.seq)
    assert read_notices(clocked_store) == set()
    assert clocked_store.get(near).stale is None


def test_an_undo_that_invalidates_a_memory_is_recorded_as_the_cause(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    created = clocked_store.history(ground).changes[0].seq
    undone = clocked_store.undo(created)
    assert undone.invalidation_notified == [near]
    assert clocked_store.undo(undone.change).invalidation_notified is None
    assert clocked_store.get(ground).state == "live"
    assert clocked_store.get(near).stale is None


def test_dependents_of_a_memory_that_an_import_ends_are_notified(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    (row,) = [row for row in clocked_store.export()["memories"] if row["id"] == ground]
    over = row | {"tier": "short", "expires_at": "2020-01-01", "updated_at": "2026-02-01", "version": 2}
    assert clocked_store.call("import", {"envelope": {"memories": [over]}}).merged == 1
    assert read_notices(clocked_store) == {(ground, ground, near, 1, "expired", "open")}
