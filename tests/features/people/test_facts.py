"""Facts: one value per key, with history, under every name of a person."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import Conflict, Invalid, NotFound


def set_fact(ctx: Any, key: str, value: str, principal: str = "ann", **more: Any) -> Any:
    return ctx.fact_set(key=key, value=value, principal=principal, **more)


def read_values(ctx: Any, principal: str = "ann", **more: Any) -> dict[str, str]:
    return {fact.key: fact.value for fact in ctx.fact_list(principal=principal, **more).facts}


def test_a_fact_is_set_and_read_and_is_a_recallable_memory(clocked_store: holdfast.Holdfast) -> None:
    with pytest.raises(NotFound):
        clocked_store.fact_get(key="diet", principal="ann")
    told = set_fact(clocked_store, "diet", "vegetarian since university", learned_from="message-7", confidence=0.8)
    assert (told.created, told.contradicts) == (True, None)
    fact = clocked_store.fact_get(key="diet", principal="ann")
    assert (fact.value, fact.confidence, fact.learned_from) == ("vegetarian since university", 0.8, "message-7")
    (hit,) = clocked_store.recall("who is vegetarian").memories
    assert (hit.id, hit.memory_kind) == (fact.memory_id, "fact")


def test_two_people_have_separate_facts_under_one_key_and_so_has_an_agent(clocked_store: holdfast.Holdfast) -> None:
    set_fact(clocked_store, "name", "Ann")
    set_fact(clocked_store, "name", "Bob", principal="bob/of:slack U42")
    clocked_store.fact_set(key="name", value="Tester")
    assert read_values(clocked_store) == {"name": "Ann"}
    assert read_values(clocked_store, "bob/of:slack U42") == {"name": "Bob"}
    assert clocked_store.fact_get(key="name").value == "Tester"


def test_a_changed_fact_names_the_former_value_and_keeps_it_in_history(
    clocked_store: holdfast.Holdfast, clock: Any
) -> None:
    set_fact(clocked_store, "city", "Berlin")
    clock.move(days=1)
    told = set_fact(clocked_store, "city", "Hamburg")
    assert (told.created, told.contradicts, told.fact.contradicted) == (False, "Berlin", ["Berlin"])
    assert set_fact(clocked_store, "city", "Hamburg").contradicts is None
    past = clocked_store.fact_history(key="city", principal="ann").past
    assert [one.value for one in past] == ["Berlin", "Hamburg"]
    assert past[1].at == clock.after()


def test_a_deleted_fact_is_restored_or_set_again_with_its_history(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    first = set_fact(clocked_store, "city", "Berlin").fact.memory_id
    clock.move(seconds=1)
    assert clocked_store.fact_delete(key="city", principal="ann").count == 1
    with pytest.raises(NotFound):
        clocked_store.fact_delete(key="city", principal="ann")
    assert (read_values(clocked_store), read_values(clocked_store, deleted=True)) == ({}, {"city": "Berlin"})
    assert clocked_store.recall("Berlin").count == 0
    clock.move(seconds=1)
    assert clocked_store.fact_restore(key="city", principal="ann").value == "Berlin"
    clocked_store.fact_delete(key="city", principal="ann")
    clock.move(seconds=1)
    again = set_fact(clocked_store, "city", "Hamburg")
    assert (again.fact.memory_id, again.created) == (first, False)
    assert read_values(clocked_store, deleted=True) == {}
    assert [one.value for one in clocked_store.fact_history(key="city", principal="ann").past] == [
        "Berlin",
        None,
        "Berlin",
        None,
        "Berlin",
        "Hamburg",
    ]


def test_all_facts_of_a_person_are_deleted_at_once(clocked_store: holdfast.Holdfast) -> None:
    for key in ("a", "b", "c"):
        set_fact(clocked_store, key, key)
    set_fact(clocked_store, "a", "other", principal="bob")
    clocked_store.fact_delete(key="a", principal="ann")
    assert clocked_store.fact_delete(every=True, principal="ann").count == 2
    assert sorted(read_values(clocked_store, deleted=True)) == ["a", "b", "c"]
    assert read_values(clocked_store, "bob") == {"a": "other"}
    with pytest.raises(Invalid):
        clocked_store.fact_delete(principal="ann")


def test_a_person_has_one_profile_under_every_alias(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    set_fact(clocked_store, "city", "Berlin", principal="slack:U42")
    clock.move(seconds=1)
    set_fact(clocked_store, "city", "Hamburg")
    set_fact(clocked_store, "name", "Ann", principal="slack:U42")
    clocked_store.principal_merge(alias="slack:U42", principal="ann")
    assert read_values(clocked_store) == read_values(clocked_store, "slack:U42") == {"city": "Hamburg", "name": "Ann"}
    clock.move(seconds=1)
    set_fact(clocked_store, "name", "Anne")
    assert read_values(clocked_store, "slack:U42")["name"] == "Anne"
    clocked_store.principal_split(alias="slack:U42")
    assert read_values(clocked_store) == {"city": "Hamburg"}
    assert read_values(clocked_store, "slack:U42") == {"city": "Berlin", "name": "Anne"}


def test_a_fact_does_not_overwrite_an_ordinary_memory(clocked_store: holdfast.Holdfast) -> None:
    clocked_store.store(title="city", content="A note about cities.", namespace="people/ann")
    with pytest.raises(Conflict):
        set_fact(clocked_store, "city", "Berlin")


def test_facts_are_visible_to_callers_with_access_to_the_namespace(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    set_fact(clocked_store, "city", "Berlin")
    outside = seen_by("ai:else@here", right="write", namespaces=("work",))
    assert outside.fact_list(principal="ann").count == 0
    with pytest.raises(holdfast.HoldfastError):
        set_fact(outside, "city", "Hamburg")
    assert read_values(clocked_store) == {"city": "Berlin"}


def test_a_key_is_listed_across_all_people_with_its_owners(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    for who, city in (("ben", "Berlin"), ("ann", "Hamburg"), ("eve", "Rome")):
        clocked_store.fact_set(key="city", value=city, principal=who)
    clocked_store.fact_set(key="name", value="Ann", principal="ann")
    clocked_store.fact_delete(key="city", principal="eve")

    def find_facts(ctx: Any, **asked: Any) -> list[tuple[str, str, str]]:
        return [(one.principal, one.key, one.value) for one in ctx.fact_everybody(**asked).facts]

    assert find_facts(clocked_store, key="city") == [("ann", "city", "Hamburg"), ("ben", "city", "Berlin")]
    assert find_facts(clocked_store, limit=1, offset=1) == [("ann", "name", "Ann")]
    assert find_facts(seen_by("ai:else@here", namespaces=("shop",)), key="city") == []
