"""Dependents are notified for every cause."""

from typing import Any

import pytest
from ways_to_invalidate import CAUSES, Remember, entries, read_notices

import holdfast
from holdfast.features.reflections.propagate import ChangeSet


@pytest.mark.parametrize("way", CAUSES)
def test_all_dependents_are_notified_for_every_cause(
    clocked_store: holdfast.Holdfast, remember: Remember, way: str
) -> None:
    fall, cause = CAUSES[way]
    fallen, heir = remember("fallen", namespace="fallen"), remember("heir")
    near = remember("near", fallen, relation="reflects_on")
    far = remember("far", near, relation="derives_from")
    remember("beside")
    answer = fall(clocked_store, fallen, heir)
    by = heir if cause == "superseded" else fallen
    assert read_notices(clocked_store) == {(fallen, by, near, 1, cause, "open"), (fallen, by, far, 2, cause, "open")}
    if answer is not None:
        assert answer.invalidation_notified == [near, far]


def test_a_consolidated_memory_replaces_its_sources_and_is_not_stale(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    one, other = remember("one"), remember("other")
    near = remember("near", one)
    made = clocked_store.consolidate(ids=[one, other], title="Both", summary="One and the other.")
    assert read_notices(clocked_store) == {(one, made.id, near, 1, "archived", "open")}
    assert made.invalidation_notified == [near]


def test_dependents_of_an_expired_memory_are_notified_when_it_is_collected(
    clocked_store: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    brief, near = remember("brief", tier="short"), remember("near")
    clocked_store.link(near, brief, relation="derived_from")
    clock.move(days=1)
    assert read_notices(clocked_store) == set()
    assert clocked_store.gc().invalidation_notified == [near]
    assert read_notices(clocked_store) == {(brief, brief, near, 1, "expired", "open")}
    assert clocked_store.gc().invalidation_notified is None


def test_dependents_are_notified_when_an_expired_memory_releases_its_title(
    clocked_store: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    brief = remember("brief", tier="short")
    near = remember("near", brief)
    clock.move(days=1)
    remember("brief")
    assert read_notices(clocked_store) == {(brief, brief, near, 1, "expired", "open")}


def test_a_passed_valid_until_notifies_once_when_collected(
    clocked_store: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    until = remember("until tomorrow", valid_until=clock.after(days=1))
    near = remember("near", until)
    clocked_store.gc()
    assert read_notices(clocked_store) == set()
    clock.move(days=2)
    clocked_store.gc()
    clocked_store.gc()
    assert read_notices(clocked_store) == {(until, until, near, 1, "expired", "open")}
    assert len(entries(clocked_store)) == 1


def test_ending_a_source_link_notifies_the_dependent_and_its_dependents(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near, beside = remember("near", ground), remember("beside", ground)
    far = remember("far", near)
    answer = clocked_store.kg_invalidate(near, ground, "derived_from")
    assert read_notices(clocked_store) == {
        (ground, ground, near, 1, "invalidated", "open"),
        (ground, ground, far, 2, "invalidated", "open"),
    }
    assert answer.invalidation_notified == [near, far]
    assert beside not in answer.invalidation_notified


def test_a_change_by_a_peer_notifies_dependents_permanently(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    clocked_store.archive(ids=[ground])
    with clocked_store.ctx.transaction() as write:
        write.local[ChangeSet].changed.add(ground)
    clocked_store.archive_restore(ground)
    assert read_notices(clocked_store) == {(ground, ground, near, 1, "changed", "open")}


@pytest.mark.parametrize(
    ("new", "stale"),
    [({"content": "said otherwise"}, True), ({"title": "other"}, True), ({"priority": 9}, False)],
    ids=["content", "title", "neither"],
)
def test_an_import_that_changes_content_notifies_dependents(
    clocked_store: holdfast.Holdfast, remember: Remember, new: dict[str, Any], stale: bool
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    (row,) = [row for row in clocked_store.export()["memories"] if row["id"] == ground]
    later = row | new | {"updated_at": "2100-02-01", "version": 2}
    assert clocked_store.call("import", {"envelope": {"memories": [later]}}).merged == 1
    assert read_notices(clocked_store) == ({(ground, ground, near, 1, "changed", "open")} if stale else set())


def test_an_import_merged_by_title_notifies_the_dependents_of_that_memory(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    (row,) = [row for row in clocked_store.export()["memories"] if row["id"] == ground]
    same_title = row | {"id": "019c1347-0000-7000-8000-000000000001", "content": "said otherwise elsewhere"}
    assert clocked_store.call("import", {"envelope": {"memories": [same_title]}}).merged == 1
    assert read_notices(clocked_store) == {(ground, ground, near, 1, "changed", "open")}


def test_a_future_supersession_notifies_when_it_starts(
    clocked_store: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("near", fallen)
    clocked_store.link(heir, fallen, relation="supersedes", valid_from=clock.after(days=1))
    late = remember("late", fallen)
    clocked_store.gc()
    assert read_notices(clocked_store) == set()
    clock.move(days=2)
    assert set(clocked_store.gc().invalidation_notified) == {near, late}
    assert {one[:5] for one in read_notices(clocked_store)} == {
        (fallen, heir, id, 1, "superseded") for id in (near, late)
    }
    assert clocked_store.gc().invalidation_notified is None
    clocked_store.kg_invalidate(heir, fallen, "supersedes")
    assert {one[5] for one in read_notices(clocked_store)} == {"resolved"}


def test_a_supersession_ended_before_its_start_notifies_nobody(
    clocked_store: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    remember("near", fallen)
    clocked_store.link(heir, fallen, relation="supersedes", valid_from=clock.after(days=1))
    clocked_store.kg_invalidate(heir, fallen, "supersedes")
    clock.move(days=2)
    clocked_store.gc()
    assert read_notices(clocked_store) == set()


@pytest.mark.parametrize("collected", [True, False], ids=["collected", "not collected"])
def test_a_source_link_that_expires_notifies_and_is_resolved_when_valid_again(
    clocked_store: holdfast.Holdfast, remember: Remember, clock: Any, collected: bool
) -> None:
    ground, near = remember("ground"), remember("near")
    far = remember("far", near)
    clocked_store.link(near, ground, relation="derived_from", valid_until=clock.after(days=1))
    clock.move(days=2)
    if collected:
        assert clocked_store.gc().invalidation_notified == [near, far]
        assert clocked_store.gc().invalidation_notified is None
        assert {one[:5] for one in read_notices(clocked_store)} == {
            (ground, ground, near, 1, "invalidated"),
            (ground, ground, far, 2, "invalidated"),
        }
    clocked_store.link(near, ground, relation="derived_from")
    clocked_store.gc()
    assert {one[5] for one in read_notices(clocked_store)} == ({"resolved"} if collected else set())
