"""A memory derived from an invalidated or stale one is stale from the start."""

from typing import Any

import pytest
from ways_to_invalidate import CAUSES, Remember, read_notices

import holdfast


@pytest.mark.parametrize("relation", ["reflects_on", "derives_from", "derived_from"])
def test_a_memory_derived_from_a_stale_one_and_its_dependents_are_stale_for_the_same_reason(
    clocked_store: holdfast.Holdfast, remember: Remember, relation: str
) -> None:
    ground, late = remember("ground"), remember("late")
    near, beyond = remember("near", ground), remember("beyond", late)
    clocked_store.archive(ids=[ground])
    assert clocked_store.link(late, near, relation=relation).invalidation_notified == [late, beyond]
    assert read_notices(clocked_store) == {
        (ground, ground, near, 1, "archived", "open"),
        (ground, ground, late, 2, "archived", "open"),
        (ground, ground, beyond, 3, "archived", "open"),
    }


def test_a_reflection_on_a_stale_memory_is_stale_from_the_start(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    ground, heir = remember("ground"), remember("heir")
    near = remember("near", ground)
    clocked_store.link(heir, ground, relation="supersedes")
    late = clocked_store.reflect(source_ids=[near], title="late", content="drawn from what is stale").id
    mark = clocked_store.get(late).stale
    assert (mark.cause, mark.hop, mark.invalidated_id, mark.invalidating_id) == ("superseded", 2, ground, heir)


@pytest.mark.parametrize("way", ["superseded", "archived", "ended"])
def test_a_memory_derived_from_an_invalidated_one_is_stale(
    clocked_store: holdfast.Holdfast, remember: Remember, way: str
) -> None:
    fall, cause = CAUSES[way]
    fallen, heir, late = remember("fallen"), remember("heir"), remember("late")
    fall(clocked_store, fallen, heir)
    link = {"source_id": late, "target_id": fallen, "relation": "derived_from"}
    assert clocked_store.call("import", {"envelope": {"memories": [], "links": [link]}}).rejected == 0
    assert read_notices(clocked_store) == {(fallen, heir if way == "superseded" else fallen, late, 1, cause, "open")}


def test_a_replacement_later_linked_to_its_source_is_not_stale(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    old, new = remember("old"), remember("new")
    near = remember("near", old)
    clocked_store.link(new, old, relation="supersedes")
    clocked_store.link(new, old, relation="derived_from")
    clocked_store.link(new, near, relation="derived_from")
    assert {one[2] for one in read_notices(clocked_store)} == {near}


def test_a_memory_derived_from_one_with_a_resolved_notice_is_not_stale(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    clocked_store.archive(ids=[ground])
    (one,) = clocked_store.invalidations().invalidations
    clocked_store.invalidations_dismiss(ids=[one.id])
    remember("late", near)
    assert {one[2] for one in read_notices(clocked_store)} == {near}


def test_a_summary_becomes_stale_with_its_sources_but_not_by_an_import(
    clocked_store: holdfast.Holdfast, remember: Remember, tmp_path: Any, clock: Any
) -> None:
    ground, one, other = remember("ground"), remember("one"), remember("other")
    near = remember("near", ground)
    clocked_store.consolidate(ids=[one, other], title="Both", summary="One and the other.")
    clocked_store.archive(ids=[ground])
    made = clocked_store.consolidate(ids=[near, remember("more")], title="Stale", summary="Near and more.")
    assert {each[2] for each in read_notices(clocked_store)} == {near, made.id}
    with holdfast.open(str(tmp_path / "copy.db"), agent_id="ai:tester@here", now=clock) as copy:
        assert copy.call("import", {"envelope": clocked_store.export()}).rejected == 0
        assert read_notices(copy) == read_notices(clocked_store)


def test_changes_that_do_not_invalidate_notify_nobody(clocked_store: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    clocked_store.update(ground, content="said otherwise", valid_until="2100-01-01")
    clocked_store.link(near, ground, relation="related_to")
    clocked_store.delete(near)
    assert read_notices(clocked_store) == set()
