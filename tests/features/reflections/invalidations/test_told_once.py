"""Each dependent is notified once, all or none, up to the hop limit."""

from typing import Any

import pytest
from falling import WAYS, Remember, entries, told
from msgspec.structs import replace

import holdfast
from holdfast.features.history import service as history
from holdfast.features.reflections.invalidation import id_of
from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.kernel.journal.kinds import MEMORY


@pytest.mark.parametrize("way", WAYS)
def test_repeating_what_made_something_fall_changes_nothing(
    timed: holdfast.Holdfast, remember: Remember, way: str
) -> None:
    fall, _ = WAYS[way]
    fallen, heir = remember("fallen", namespace="fallen"), remember("heir")
    remember("near", fallen)
    fall(timed, fallen, heir)
    before = entries(timed)
    try:
        again = fall(timed, fallen, heir)
    except HoldfastError:
        again = None
    assert not getattr(again, "invalidation_notified", None)
    assert entries(timed) == before


def test_each_heir_of_one_memory_is_told_of_by_itself(timed: holdfast.Holdfast, remember: Remember) -> None:
    fallen, first, second = remember("fallen"), remember("first"), remember("second")
    near = remember("near", fallen)
    timed.link(first, fallen, relation="supersedes")
    timed.link(second, fallen, relation="supersedes")
    assert told(timed) == {
        (fallen, first, near, 1, "superseded", "open"),
        (fallen, second, near, 1, "superseded", "open"),
    }


def test_an_invalidation_has_the_same_id_on_every_node(timed: holdfast.Holdfast, remember: Remember) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("near", fallen)
    timed.link(heir, fallen, relation="supersedes")
    (one,) = timed.invalidations().invalidations
    assert one.id == id_of(fallen, heir, near)


def test_a_memory_reached_by_two_ways_is_told_once_by_the_shorter(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    both = remember("both", near, ground)
    timed.delete(ground)
    assert {(one[2], one[3]) for one in told(timed)} == {(near, 1), (both, 1)}


def test_memories_that_were_taken_in_deriving_from_each_other_are_each_told_once(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    one = remember("one", ground)
    other = remember("other", one)
    ring = [{"source_id": id, "target_id": other, "relation": "derived_from"} for id in (one, ground)]
    timed.call("import", {"envelope": {"memories": [], "links": ring}})
    timed.delete(ground)
    assert {(told_of[2], told_of[3]) for told_of in told(timed)} == {(one, 1), (other, 2)}


def test_a_policy_says_how_far_a_fall_is_told(timed: holdfast.Holdfast, remember: Remember) -> None:
    timed.call("policy_set", {"namespace": "team", "invalidation_hops": 2})
    chain = [remember("0")]
    for number in range(1, 5):
        chain.append(remember(str(number), chain[-1]))
    timed.delete(chain[0])
    assert {(one[2], one[3]) for one in told(timed)} == {(chain[1], 1), (chain[2], 2)}


def test_an_heir_that_stood_on_what_it_supersedes_is_not_told(timed: holdfast.Holdfast, remember: Remember) -> None:
    old = remember("old")
    new = remember("new", old)
    remember("on the new", new)
    near = remember("near", old)
    timed.link(new, old, relation="supersedes")
    assert {one[2] for one in told(timed)} == {near}


def test_dependents_are_told_and_never_changed(timed: holdfast.Holdfast, remember: Remember) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("near", fallen)
    before = timed.get(near)
    timed.link(heir, fallen, relation="supersedes")
    after = timed.get(near)
    assert (after.version, after.state, after.links) == (before.version, before.state, before.links)


def test_a_change_that_fails_tells_nobody(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    remember("near", ground)

    def fails() -> None:
        with timed.hold.writing() as write:
            memory = write.get(MEMORY, ground)
            assert memory is not None
            write.change(MEMORY, memory, replace(memory, state="deleted"), "delete")
            raise Invalid("The end is missing.")

    with pytest.raises(Invalid):
        fails()
    assert told(timed) == set()
    assert timed.get(ground).state == "live"


def test_a_story_of_falls_verifies_and_names_whoever_caused_them(
    timed: holdfast.Holdfast, remember: Remember, seen_by: Any
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    seen_by("ai:other@here").delete(ground)
    (entry,) = entries(timed)
    assert (entry.actor, entry.op, entry.about) == ("ai:other@here", "flag", near)
    with timed.hold.reading() as session:
        assert history.verify(timed.hold, session) == []
