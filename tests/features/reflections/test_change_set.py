"""Which changes invalidate a memory, and which restore it."""

from typing import Any

import pytest

from holdfast.features.reflections.invalidation import SourceStatus, invalidation_id
from holdfast.features.reflections.propagate import ChangeSet
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import Draft, Lifetimes, memory_from_draft
from holdfast.kernel.timestamps import derive_id

NOW = 1_800_000_000_000_000


def memory(**how: Any) -> Memory:
    draft = Draft(title="t", content="c", namespace="n", source="user", tier="long")
    made = memory_from_draft(draft, id="m", agent="a", origin="o", now=NOW - 10, lifetimes=Lifetimes())
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


def standing(**how: Any) -> SourceStatus:
    given: dict[str, Any] = {"id": "m", "namespace": "n", "state": "live", "valid_until": None, "updated_at": 1}
    return SourceStatus(**given | {"lives_until": NOW + 1} | how)


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
def test_an_unavailable_source_has_a_reason(how: dict[str, Any], cause: str | None) -> None:
    assert standing(**how).unavailable_because(NOW) == cause


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
def test_a_memory_becomes_unavailable_and_available_again(
    before: dict[str, Any], after: dict[str, Any], fell: bool, back: bool
) -> None:
    happened = ChangeSet()
    happened.add_memory(memory(**before), memory(**after), NOW)
    assert (happened.unavailable == {"m"}, happened.restored == {"m"}) == (fell, back)
    assert bool(happened) == (fell or back)


@pytest.mark.parametrize("relation", ["reflects_on", "derives_from", "derived_from"])
def test_ending_and_restoring_a_source_link_are_recorded(relation: str) -> None:
    held, over = link(relation), link(relation, valid_until=NOW)
    happened = ChangeSet()
    happened.add_link(None, held, NOW)
    assert happened.new_links == {("t", "s")}
    assert not happened.ended_links | happened.superseded
    happened.add_link(held, over, NOW)
    assert happened.ended_links == {("t", "s")}
    happened.add_link(over, held, NOW)
    assert happened.restored == {"t"}


def test_deleting_a_source_link_invalidates_nothing() -> None:
    happened = ChangeSet()
    happened.add_link(link("reflects_on"), link("reflects_on", state="deleted"), NOW)
    assert not happened


def test_a_supersession_is_recorded_once_and_reverted_with_its_link() -> None:
    held, over = link("supersedes"), link("supersedes", valid_until=NOW)
    happened = ChangeSet()
    happened.add_link(held, held, NOW)
    happened.add_link(None, over, NOW)
    assert not happened
    happened.add_link(None, held, NOW)
    assert happened.superseded == {("t", "s")}
    happened.add_link(held, over, NOW)
    assert (happened.superseded, happened.restored) == (set(), {"t"})


@pytest.mark.parametrize("relation", ["related_to", "contradicts"])
def test_other_links_invalidate_nothing(relation: str) -> None:
    happened = ChangeSet()
    happened.add_link(None, link(relation), NOW)
    happened.add_link(link(relation), link(relation, valid_until=NOW), NOW)
    assert not happened


def test_the_id_of_an_invalidation_is_derived_from_its_three_memories() -> None:
    assert invalidation_id("fell", "heir", "told") == derive_id("fell", "heir", "told")
    assert (
        len(
            {
                invalidation_id("a", "b", "c"),
                invalidation_id("a", "c", "b"),
                invalidation_id("b", "a", "c"),
                invalidation_id("ab", "", "c"),
            }
        )
        == 4
    )
