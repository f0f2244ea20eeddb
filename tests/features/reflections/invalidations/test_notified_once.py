"""Each dependent is notified once, all or none, up to the hop limit."""

from typing import Any

import pytest
from msgspec.structs import replace
from ways_to_invalidate import CAUSES, Remember, entries, read_notices

import holdfast
from holdfast.features.history import service as history
from holdfast.features.reflections.invalidation import invalidation_id
from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.kernel.journal.kinds import MEMORY


@pytest.mark.parametrize("way", CAUSES)
def test_repeating_the_cause_changes_nothing(clocked_store: holdfast.Holdfast, remember: Remember, way: str) -> None:
    fall, _ = CAUSES[way]
    fallen, heir = remember("fallen", namespace="fallen"), remember("heir")
    remember("near", fallen)
    fall(clocked_store, fallen, heir)
    before = entries(clocked_store)
    try:
        again = fall(clocked_store, fallen, heir)
    except HoldfastError:
        again = None
    assert not getattr(again, "invalidation_notified", None)
    assert entries(clocked_store) == before


def test_each_replacement_creates_its_own_notice(clocked_store: holdfast.Holdfast, remember: Remember) -> None:
    fallen, first, second = remember("fallen"), remember("first"), remember("second")
    near = remember("near", fallen)
    clocked_store.link(first, fallen, relation="supersedes")
    clocked_store.link(second, fallen, relation="supersedes")
    assert read_notices(clocked_store) == {
        (fallen, first, near, 1, "superseded", "open"),
        (fallen, second, near, 1, "superseded", "open"),
    }


def test_an_invalidation_has_the_same_id_on_every_node(clocked_store: holdfast.Holdfast, remember: Remember) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("near", fallen)
    clocked_store.link(heir, fallen, relation="supersedes")
    (one,) = clocked_store.invalidations().invalidations
    assert one.id == invalidation_id(fallen, heir, near)


def test_a_dependent_reached_by_two_paths_is_notified_once_with_the_shorter_distance(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    both = remember("both", near, ground)
    clocked_store.delete(ground)
    assert {(one[2], one[3]) for one in read_notices(clocked_store)} == {(near, 1), (both, 1)}


def test_imported_memories_in_a_derivation_cycle_are_each_notified_once(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    one = remember("one", ground)
    other = remember("other", one)
    ring = [{"source_id": id, "target_id": other, "relation": "derived_from"} for id in (one, ground)]
    clocked_store.call("import", {"envelope": {"memories": [], "links": ring}})
    clocked_store.delete(ground)
    assert {(told_of[2], told_of[3]) for told_of in read_notices(clocked_store)} == {(one, 1), (other, 2)}


def test_a_policy_limits_the_distance_of_notices(clocked_store: holdfast.Holdfast, remember: Remember) -> None:
    clocked_store.call("policy_set", {"namespace": "team", "invalidation_hops": 2})
    chain = [remember("0")]
    for number in range(1, 5):
        chain.append(remember(str(number), chain[-1]))
    clocked_store.delete(chain[0])
    assert {(one[2], one[3]) for one in read_notices(clocked_store)} == {(chain[1], 1), (chain[2], 2)}


def test_a_replacement_derived_from_its_source_is_not_notified(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    old = remember("old")
    new = remember("new", old)
    remember("on the new", new)
    near = remember("near", old)
    clocked_store.link(new, old, relation="supersedes")
    assert {one[2] for one in read_notices(clocked_store)} == {near}


def test_dependents_are_flagged_and_never_modified(clocked_store: holdfast.Holdfast, remember: Remember) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("near", fallen)
    before = clocked_store.get(near)
    clocked_store.link(heir, fallen, relation="supersedes")
    after = clocked_store.get(near)
    assert (after.version, after.state, after.links) == (before.version, before.state, before.links)


def test_a_failed_change_notifies_nobody(clocked_store: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    remember("near", ground)

    def fails() -> None:
        with clocked_store.ctx.transaction() as write:
            memory = write.get(MEMORY, ground)
            assert memory is not None
            write.change(MEMORY, memory, replace(memory, state="deleted"), "delete")
            raise Invalid("The end is missing.")

    with pytest.raises(Invalid):
        fails()
    assert read_notices(clocked_store) == set()
    assert clocked_store.get(ground).state == "live"


def test_a_history_of_invalidations_verifies_and_names_the_causers(
    clocked_store: holdfast.Holdfast, remember: Remember, seen_by: Any
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    seen_by("ai:other@here").delete(ground)
    (entry,) = entries(clocked_store)
    assert (entry.actor, entry.op, entry.about) == ("ai:other@here", "flag", near)
    with clocked_store.ctx.reading() as session:
        assert history.verify(clocked_store.ctx, session) == []
