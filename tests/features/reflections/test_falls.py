"""Which changes invalidate a memory, and which restore it."""

from typing import Any

import pytest

from holdfast.features.reflections.invalidation import ChangeSet, Standing, id_of
from holdfast.kernel import ids
from holdfast.kernel.records.lifetime import Lifetimes
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import Draft, admit

NOW = 1_800_000_000_000_000


def memory(**how: Any) -> Memory:
    draft = Draft(title="t", content="c", namespace="n", source="user", tier="long")
    made = admit(draft, id="m", agent="a", origin="o", now=NOW - 10, lifetimes=Lifetimes())
    return Memory(**{name: getattr(made, name) for name in Memory.__struct_fields__} | how)


def link(relation: Any, **how: Any) -> Link:
    given: dict[str, Any] = {
        "id": "l",
        "source": "s",
        "target": "t",
        "relation": relation,
        "valid_from": 1,
        "agent": "a",
    }
    times = {"valid_until": None, "created_at": 1, "updated_at": 1, "origin": "o", "version": 1}
    return Link(**given | times | how)


def standing(**how: Any) -> Standing:
    given: dict[str, Any] = {"id": "m", "namespace": "n", "state": "live", "valid_until": None, "updated_at": 1}
    return Standing(**given | {"lives_until": NOW + 1} | how)


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ({}, None),
        ({"state": "deleted"}, "deleted"),
        ({"state": "archived"}, "archived"),
        ({"valid_until": NOW, "updated_at": NOW}, "invalidated"),
        ({"valid_until": NOW, "updated_at": NOW - 1}, "expired"),
        ({"valid_until": NOW + 1}, None),
        ({"lives_until": NOW}, "expired"),
        ({"state": "deleted", "lives_until": 1, "valid_until": 1}, "deleted"),
    ],
)
def test_why_a_memory_is_away(how: dict[str, Any], cause: str | None) -> None:
    assert standing(**how).away(NOW) == cause


@pytest.mark.parametrize(
    ("before", "after", "fell", "back"),
    [
        ({}, {"content": "other"}, False, False),
        ({}, {"state": "deleted"}, True, False),
        ({}, {"state": "archived"}, True, False),
        ({}, {"valid_until": NOW}, True, False),
        ({}, {"valid_until": NOW + 1}, False, False),
        ({"state": "archived"}, {"state": "deleted"}, False, False),
        ({"valid_until": NOW}, {"state": "deleted", "valid_until": NOW}, False, False),
        ({"state": "deleted"}, {}, False, True),
        ({"valid_until": NOW}, {}, False, True),
        ({"expires_at": NOW}, {"expires_at": NOW + 5}, False, True),
    ],
)
def test_a_memory_falls_when_it_was_there_and_is_not_and_comes_back_when_it_is_again(
    before: dict[str, Any], after: dict[str, Any], fell: bool, back: bool
) -> None:
    happened = ChangeSet()
    happened.memory(memory(**before), memory(**after), NOW)
    assert (happened.gone == {"m"}, happened.back == {"m"}) == (fell, back)
    assert bool(happened) == (fell or back)


@pytest.mark.parametrize("relation", ["reflects_on", "derives_from", "derived_from"])
def test_a_new_ground_is_no_fall_its_end_is_one_and_its_return_takes_it_back(relation: str) -> None:
    held, over = link(relation), link(relation, valid_until=NOW)
    happened = ChangeSet()
    happened.link(None, held, NOW)
    assert happened.grounded == {("t", "s")}
    assert not happened.cut | happened.superseded
    happened.link(held, over, NOW)
    assert happened.cut == {("t", "s")}
    happened.link(over, held, NOW)
    assert happened.back == {"t"}


def test_a_ground_that_was_a_mistake_is_taken_back_without_a_fall() -> None:
    happened = ChangeSet()
    happened.link(link("reflects_on"), link("reflects_on", state="deleted"), NOW)
    assert not happened


def test_superseding_is_a_fall_once_and_taken_back_with_its_link() -> None:
    held, over = link("supersedes"), link("supersedes", valid_until=NOW)
    happened = ChangeSet()
    happened.link(held, held, NOW)
    happened.link(None, over, NOW)
    assert not happened
    happened.link(None, held, NOW)
    assert happened.superseded == {("t", "s")}
    happened.link(held, over, NOW)
    assert (happened.superseded, happened.back) == (set(), {"t"})


@pytest.mark.parametrize("relation", ["related_to", "contradicts"])
def test_other_links_make_nothing_fall(relation: str) -> None:
    happened = ChangeSet()
    happened.link(None, link(relation), NOW)
    happened.link(link(relation), link(relation, valid_until=NOW), NOW)
    assert not happened


def test_the_id_of_an_invalidation_follows_from_its_three_memories() -> None:
    assert id_of("fell", "heir", "told") == ids.derived("fell", "heir", "told")
    assert len({id_of("a", "b", "c"), id_of("a", "c", "b"), id_of("b", "a", "c"), id_of("ab", "", "c")}) == 4
