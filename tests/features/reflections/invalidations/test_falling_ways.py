"""Dependents are notified for every cause."""

from typing import Any

import pytest
from falling import WAYS, Remember, entries, told
from msgspec import UNSET

import holdfast
from holdfast.features.reflections.invalidation import ChangeSet


@pytest.mark.parametrize("way", WAYS)
def test_everything_that_stands_on_a_memory_is_told_whichever_way_it_falls(
    timed: holdfast.Holdfast, remember: Remember, way: str
) -> None:
    fall, cause = WAYS[way]
    fallen, heir = remember("fallen", namespace="fallen"), remember("heir")
    near = remember("near", fallen, relation="reflects_on")
    far = remember("far", near, relation="derives_from")
    remember("beside")
    answer = fall(timed, fallen, heir)
    by = heir if cause == "superseded" else fallen
    assert told(timed) == {(fallen, by, near, 1, cause, "open"), (fallen, by, far, 2, cause, "open")}
    if answer is not None:
        assert answer.invalidation_notified == [near, far]


def test_what_was_made_of_several_takes_their_place_and_is_not_stale_itself(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    one, other = remember("one"), remember("other")
    near = remember("near", one)
    made = timed.consolidate(ids=[one, other], title="Both", summary="One and the other.")
    assert told(timed) == {(one, made.id, near, 1, "archived", "open")}
    assert made.invalidation_notified == [near]


def test_what_stands_on_an_expired_memory_is_told_when_it_is_collected(
    timed: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    brief, near = remember("brief", tier="short"), remember("near")
    timed.link(near, brief, relation="derived_from")
    clock.move(days=1)
    assert told(timed) == set()
    assert timed.gc().invalidation_notified == [near]
    assert told(timed) == {(brief, brief, near, 1, "expired", "open")}
    assert timed.gc().invalidation_notified is UNSET


def test_an_expired_memory_that_lets_go_of_its_title_tells_what_stands_on_it(
    timed: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    brief = remember("brief", tier="short")
    near = remember("near", brief)
    clock.move(days=1)
    remember("brief")
    assert told(timed) == {(brief, brief, near, 1, "expired", "open")}


def test_what_ends_by_itself_tells_when_it_is_collected_and_tells_once(
    timed: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    until = remember("until tomorrow", valid_until=clock.after(days=1))
    near = remember("near", until)
    timed.gc()
    assert told(timed) == set()
    clock.move(days=2)
    timed.gc()
    timed.gc()
    assert told(timed) == {(until, until, near, 1, "expired", "open")}
    assert len(entries(timed)) == 1


def test_a_memory_whose_link_to_its_ground_is_ended_is_told_and_what_stands_on_it(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near, beside = remember("near", ground), remember("beside", ground)
    far = remember("far", near)
    answer = timed.kg_invalidate(near, ground, "derived_from")
    assert told(timed) == {
        (ground, ground, near, 1, "invalidated", "open"),
        (ground, ground, far, 2, "invalidated", "open"),
    }
    assert answer.invalidation_notified == [near, far]
    assert beside not in answer.invalidation_notified


def test_what_a_peer_changed_tells_what_stands_on_it_and_stays_told_when_it_comes_back(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    timed.archive(ids=[ground])
    with timed.hold.writing() as write:
        write.local(ChangeSet).changed.add(ground)
    timed.archive_restore(ground)
    assert told(timed) == {(ground, ground, near, 1, "changed", "open")}


@pytest.mark.parametrize(
    ("new", "stale"),
    [({"content": "said otherwise"}, True), ({"title": "other"}, True), ({"priority": 9}, False)],
    ids=["content", "title", "neither"],
)
def test_an_import_that_changes_what_a_memory_says_tells_what_stands_on_it(
    timed: holdfast.Holdfast, remember: Remember, new: dict[str, Any], stale: bool
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    (row,) = [row for row in timed.export()["memories"] if row["id"] == ground]
    later = row | new | {"updated_at": "2100-02-01", "version": 2}
    assert timed.call("import", {"envelope": {"memories": [later]}}).merged == 1
    assert told(timed) == ({(ground, ground, near, 1, "changed", "open")} if stale else set())


def test_an_import_that_is_merged_into_the_holder_of_its_title_tells_what_stands_on_that(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    (row,) = [row for row in timed.export()["memories"] if row["id"] == ground]
    same_title = row | {"id": "019c1347-0000-7000-8000-000000000001", "content": "said otherwise elsewhere"}
    assert timed.call("import", {"envelope": {"memories": [same_title]}}).merged == 1
    assert told(timed) == {(ground, ground, near, 1, "changed", "open")}


def test_a_supersession_that_begins_later_is_told_when_its_time_has_come(
    timed: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("near", fallen)
    timed.link(heir, fallen, relation="supersedes", valid_from=clock.after(days=1))
    late = remember("late", fallen)
    timed.gc()
    assert told(timed) == set()
    clock.move(days=2)
    assert set(timed.gc().invalidation_notified) == {near, late}
    assert {one[:5] for one in told(timed)} == {(fallen, heir, id, 1, "superseded") for id in (near, late)}
    assert timed.gc().invalidation_notified is UNSET
    timed.kg_invalidate(heir, fallen, "supersedes")
    assert {one[5] for one in told(timed)} == {"resolved"}


def test_a_supersession_that_is_taken_back_before_its_time_tells_nobody(
    timed: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    remember("near", fallen)
    timed.link(heir, fallen, relation="supersedes", valid_from=clock.after(days=1))
    timed.kg_invalidate(heir, fallen, "supersedes")
    clock.move(days=2)
    timed.gc()
    assert told(timed) == set()


@pytest.mark.parametrize("collected", [True, False], ids=["collected", "not collected"])
def test_a_link_to_a_ground_that_ends_by_itself_is_told_and_taken_back_when_it_holds_again(
    timed: holdfast.Holdfast, remember: Remember, clock: Any, collected: bool
) -> None:
    ground, near = remember("ground"), remember("near")
    far = remember("far", near)
    timed.link(near, ground, relation="derived_from", valid_until=clock.after(days=1))
    clock.move(days=2)
    if collected:
        assert timed.gc().invalidation_notified == [near, far]
        assert timed.gc().invalidation_notified is UNSET
        assert {one[:5] for one in told(timed)} == {
            (ground, ground, near, 1, "invalidated"),
            (ground, ground, far, 2, "invalidated"),
        }
    timed.link(near, ground, relation="derived_from")
    timed.gc()
    assert {one[5] for one in told(timed)} == ({"resolved"} if collected else set())
