"""A memory derived from an invalidated or stale one is stale from the start."""

from typing import Any

import pytest
from falling import WAYS, Remember, told

import holdfast


@pytest.mark.parametrize("relation", ["reflects_on", "derives_from", "derived_from"])
def test_what_is_built_on_a_stale_memory_is_stale_for_the_same_reason_and_what_stands_on_it(
    timed: holdfast.Holdfast, remember: Remember, relation: str
) -> None:
    ground, late = remember("ground"), remember("late")
    near, beyond = remember("near", ground), remember("beyond", late)
    timed.archive(ids=[ground])
    assert timed.link(late, near, relation=relation).invalidation_notified == [late, beyond]
    assert told(timed) == {
        (ground, ground, near, 1, "archived", "open"),
        (ground, ground, late, 2, "archived", "open"),
        (ground, ground, beyond, 3, "archived", "open"),
    }


def test_a_reflection_on_a_stale_memory_is_stale_from_the_start(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground, heir = remember("ground"), remember("heir")
    near = remember("near", ground)
    timed.link(heir, ground, relation="supersedes")
    late = timed.reflect(source_ids=[near], title="late", content="drawn from what is stale").id
    mark = timed.get(late).stale
    assert (mark.cause, mark.hop, mark.invalidated_id, mark.invalidating_id) == ("superseded", 2, ground, heir)


@pytest.mark.parametrize("way", ["superseded", "archived", "ended"])
def test_what_is_built_on_a_memory_that_fell_already_is_stale(
    timed: holdfast.Holdfast, remember: Remember, way: str
) -> None:
    fall, cause = WAYS[way]
    fallen, heir, late = remember("fallen"), remember("heir"), remember("late")
    fall(timed, fallen, heir)
    link = {"source_id": late, "target_id": fallen, "relation": "derived_from"}
    assert timed.call("import", {"envelope": {"memories": [], "links": [link]}}).rejected == 0
    assert told(timed) == {(fallen, heir if way == "superseded" else fallen, late, 1, cause, "open")}


def test_an_heir_that_is_said_to_derive_from_what_it_superseded_is_not_stale(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    old, new = remember("old"), remember("new")
    near = remember("near", old)
    timed.link(new, old, relation="supersedes")
    timed.link(new, old, relation="derived_from")
    timed.link(new, near, relation="derived_from")
    assert {one[2] for one in told(timed)} == {near}


def test_what_is_built_on_a_memory_whose_invalidation_was_settled_is_not_stale(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    timed.archive(ids=[ground])
    (one,) = timed.invalidations().invalidations
    timed.invalidations_dismiss(ids=[one.id])
    remember("late", near)
    assert {one[2] for one in told(timed)} == {near}


def test_a_summary_is_stale_with_what_it_sums_up_and_an_import_makes_no_summary_stale(
    timed: holdfast.Holdfast, remember: Remember, tmp_path: Any, clock: Any
) -> None:
    ground, one, other = remember("ground"), remember("one"), remember("other")
    near = remember("near", ground)
    timed.consolidate(ids=[one, other], title="Both", summary="One and the other.")
    timed.archive(ids=[ground])
    made = timed.consolidate(ids=[near, remember("more")], title="Stale", summary="Near and more.")
    assert {each[2] for each in told(timed)} == {near, made.id}
    with holdfast.open(str(tmp_path / "copy.db"), agent_id="ai:tester@here", now=clock) as copy:
        assert copy.call("import", {"envelope": timed.export()}).rejected == 0
        assert told(copy) == told(timed)


def test_what_does_not_fall_tells_nobody(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    timed.update(ground, content="said otherwise", valid_until="2100-01-01")
    timed.link(near, ground, relation="related_to")
    timed.delete(near)
    assert told(timed) == set()
