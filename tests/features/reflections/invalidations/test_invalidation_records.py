"""Invalidations are exported, imported, purged and undone like every record."""

from typing import Any

import pytest
from falling import Remember, entries, told
from msgspec import UNSET

import holdfast
from holdfast.features.history import service as history


def test_what_was_told_and_settled_survives_an_export(
    timed: holdfast.Holdfast, remember: Remember, tmp_path: Any, clock: Any
) -> None:
    fallen, heir, gone = remember("fallen"), remember("heir"), remember("gone")
    remember("near", fallen, gone)
    timed.link(heir, fallen, relation="supersedes")
    timed.delete(gone)
    first = timed.invalidations(invalidated_id=fallen).invalidations[0]
    timed.invalidations_dismiss(ids=[first.id], reason="no matter")
    envelope = timed.export()
    with holdfast.open(str(tmp_path / "copy.db"), agent_id="ai:tester@here", now=clock) as copy:
        assert copy.call("import", {"envelope": envelope}).rejected == 0
        assert told(copy) == told(timed)
        assert copy.export()["invalidations"] == envelope["invalidations"]
        assert copy.call("import", {"envelope": envelope}).rejected == 0
        assert told(copy) == told(timed)
        with copy.hold.reading() as session:
            assert history.verify(copy.hold, session) == []


@pytest.mark.parametrize(
    "wrong",
    [{"cause": "boredom"}, {"status": "lost"}, {"hop": 0}, {"dependent_id": "nobody"}, {"resolver": "system"}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_an_imported_invalidation_that_makes_no_sense_is_rejected(
    timed: holdfast.Holdfast, remember: Remember, wrong: dict[str, Any]
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
    assert timed.call("import", {"envelope": envelope}).rejected == 1
    assert told(timed) == set()
    assert timed.call("import", {"envelope": {"memories": [], "invalidations": [row]}}).rejected == 0
    assert len(told(timed)) == 1


def test_a_purge_takes_what_was_said_of_a_dependent_with_it(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    timed.delete(ground)
    (one,) = timed.invalidations().invalidations
    timed.invalidations_acknowledge(ids=[one.id], reason="CANARY")
    timed.archive(ids=[near])
    timed.archive_purge(ids=[near])
    assert told(timed) == set()
    assert all("CANARY" not in (entry.body or "") for entry in entries(timed))
    with timed.hold.reading() as session:
        assert history.verify(timed.hold, session) == []


def test_an_invalidation_that_was_flagged_can_be_taken_back(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    timed.delete(ground)
    (entry,) = entries(timed)
    timed.undo(entry.seq)
    assert told(timed) == set()
    assert timed.get(near).stale is UNSET


def test_an_undo_by_which_something_falls_names_its_own_change(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    created = timed.history(ground).changes[0].seq
    undone = timed.undo(created)
    assert undone.invalidation_notified == [near]
    assert timed.undo(undone.change).invalidation_notified is UNSET
    assert timed.get(ground).state == "live"
    assert timed.get(near).stale is UNSET


def test_what_stands_on_a_memory_that_an_import_ends_is_told(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    (row,) = [row for row in timed.export()["memories"] if row["id"] == ground]
    over = row | {"tier": "short", "expires_at": "2020-01-01", "updated_at": "2026-02-01", "version": 2}
    assert timed.call("import", {"envelope": {"memories": [over]}}).merged == 1
    assert told(timed) == {(ground, ground, near, 1, "expired", "open")}
