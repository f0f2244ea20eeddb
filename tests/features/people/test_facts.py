"""Facts: one value per key, with history, under every name of a person."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET

import holdfast
from holdfast.kernel.errors import Conflict, Invalid, NotFound


def tell(hold: Any, key: str, value: str, principal: str = "ann", **more: Any) -> Any:
    return hold.fact_set(key=key, value=value, principal=principal, **more)


def values(hold: Any, principal: str = "ann", **more: Any) -> dict[str, str]:
    return {fact.key: fact.value for fact in hold.fact_list(principal=principal, **more).facts}


def test_a_fact_is_told_and_known_and_is_a_memory_that_recall_finds(timed: holdfast.Holdfast) -> None:
    with pytest.raises(NotFound):
        timed.fact_get(key="diet", principal="ann")
    told = tell(timed, "diet", "vegetarian since university", learned_from="message-7", confidence=0.8)
    assert (told.created, told.contradicts) == (True, UNSET)
    fact = timed.fact_get(key="diet", principal="ann")
    assert (fact.value, fact.confidence, fact.learned_from) == ("vegetarian since university", 0.8, "message-7")
    (hit,) = timed.recall("who is vegetarian").memories
    assert (hit.id, hit.memory_kind) == (fact.memory_id, "fact")


def test_two_people_have_facts_of_one_key_and_an_agent_its_own(timed: holdfast.Holdfast) -> None:
    tell(timed, "name", "Ann")
    tell(timed, "name", "Bob", principal="bob/of:slack U42")
    timed.fact_set(key="name", value="Tester")
    assert values(timed) == {"name": "Ann"}
    assert values(timed, "bob/of:slack U42") == {"name": "Bob"}
    assert timed.fact_get(key="name").value == "Tester"


def test_what_was_so_before_is_named_and_kept(timed: holdfast.Holdfast, clock: Any) -> None:
    tell(timed, "city", "Berlin")
    clock.move(days=1)
    told = tell(timed, "city", "Hamburg")
    assert (told.created, told.contradicts, told.fact.contradicted) == (False, "Berlin", ["Berlin"])
    assert tell(timed, "city", "Hamburg").contradicts is UNSET
    past = timed.fact_history(key="city", principal="ann").past
    assert [one.value for one in past] == ["Berlin", "Hamburg"]
    assert past[1].at == clock.after()


def test_a_fact_is_deleted_and_brought_back_or_told_anew_with_its_past(timed: holdfast.Holdfast, clock: Any) -> None:
    first = tell(timed, "city", "Berlin").fact.memory_id
    clock.move(seconds=1)
    assert timed.fact_delete(key="city", principal="ann").count == 1
    with pytest.raises(NotFound):
        timed.fact_delete(key="city", principal="ann")
    assert (values(timed), values(timed, deleted=True)) == ({}, {"city": "Berlin"})
    assert timed.recall("Berlin").count == 0
    clock.move(seconds=1)
    assert timed.fact_restore(key="city", principal="ann").value == "Berlin"
    timed.fact_delete(key="city", principal="ann")
    clock.move(seconds=1)
    again = tell(timed, "city", "Hamburg")
    assert (again.fact.memory_id, again.created) == (first, False)
    assert values(timed, deleted=True) == {}
    assert [one.value for one in timed.fact_history(key="city", principal="ann").past] == [
        "Berlin",
        None,
        "Berlin",
        None,
        "Berlin",
        "Hamburg",
    ]


def test_all_facts_of_somebody_are_deleted_at_once(timed: holdfast.Holdfast) -> None:
    for key in ("a", "b", "c"):
        tell(timed, key, key)
    tell(timed, "a", "other", principal="bob")
    timed.fact_delete(key="a", principal="ann")
    assert timed.fact_delete(every=True, principal="ann").count == 2
    assert sorted(values(timed, deleted=True)) == ["a", "b", "c"]
    assert values(timed, "bob") == {"a": "other"}
    with pytest.raises(Invalid):
        timed.fact_delete(principal="ann")


def test_one_person_has_one_profile_whatever_a_channel_calls_them(timed: holdfast.Holdfast, clock: Any) -> None:
    tell(timed, "city", "Berlin", principal="slack:U42")
    clock.move(seconds=1)
    tell(timed, "city", "Hamburg")
    tell(timed, "name", "Ann", principal="slack:U42")
    timed.principal_merge(alias="slack:U42", principal="ann")
    assert values(timed) == values(timed, "slack:U42") == {"city": "Hamburg", "name": "Ann"}
    clock.move(seconds=1)
    tell(timed, "name", "Anne")
    assert values(timed, "slack:U42")["name"] == "Anne"
    timed.principal_split(alias="slack:U42")
    assert values(timed) == {"city": "Hamburg"}
    assert values(timed, "slack:U42") == {"city": "Berlin", "name": "Anne"}


def test_what_is_no_fact_is_not_overwritten_by_one(timed: holdfast.Holdfast) -> None:
    timed.store(title="city", content="A note about cities.", namespace="people/ann")
    with pytest.raises(Conflict):
        tell(timed, "city", "Berlin")


def test_facts_are_seen_by_those_who_reach_the_namespace(timed: holdfast.Holdfast, seen_by: Callable[..., Any]) -> None:
    tell(timed, "city", "Berlin")
    outside = seen_by("ai:else@here", right="write", namespaces=("work",))
    assert outside.fact_list(principal="ann").count == 0
    with pytest.raises(holdfast.HoldfastError):
        tell(outside, "city", "Hamburg")
    assert values(timed) == {"city": "Berlin"}


def test_one_key_is_listed_across_all_people_with_whose_it_is(
    timed: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    for who, city in (("ben", "Berlin"), ("ann", "Hamburg"), ("eve", "Rome")):
        timed.fact_set(key="city", value=city, principal=who)
    timed.fact_set(key="name", value="Ann", principal="ann")
    timed.fact_delete(key="city", principal="eve")

    def found(hold: Any, **asked: Any) -> list[tuple[str, str, str]]:
        return [(one.principal, one.key, one.value) for one in hold.fact_everybody(**asked).facts]

    assert found(timed, key="city") == [("ann", "city", "Hamburg"), ("ben", "city", "Berlin")]
    assert found(timed, limit=1, offset=1) == [("ann", "name", "Ann")]
    assert found(seen_by("ai:else@here", namespaces=("shop",)), key="city") == []
