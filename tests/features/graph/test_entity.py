"""Entities and aliases."""

import pytest
from msgspec.structs import asdict

import holdfast
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Conflict, Invalid, TitleTaken
from holdfast.types import EntityResult

OTHER = Caller("ai:other@here")


def test_an_entity_is_a_long_term_memory_titled_by_its_name(hold: holdfast.Holdfast) -> None:
    made = hold.entity_register(canonical_name="Ada Lovelace", namespace="people", aliases=["Ada", "Countess"])
    memory = hold.get(id=made.entity_id)
    assert asdict(made) == {
        "entity_id": memory.id,
        "canonical_name": "Ada Lovelace",
        "namespace": "people",
        "aliases": ["Ada", "Ada Lovelace", "Countess"],
        "created": True,
    }
    assert (memory.memory_kind, memory.tier, memory.title, memory.content) == (
        "entity",
        "long",
        "Ada Lovelace",
        "Ada Lovelace",
    )


@pytest.mark.parametrize("alias", ["ada lovelace", "ADA", "  Ada  ", "\uff21da", "ada\u00a0lovelace"])
def test_an_entity_is_found_by_any_of_its_names_in_any_spelling(hold: holdfast.Holdfast, alias: str) -> None:
    made = hold.entity_register(canonical_name="Ada Lovelace", namespace="people", aliases=["Ada"])
    assert hold.entity_get_by_alias(alias=alias) == EntityResult(
        found=True,
        entity_id=made.entity_id,
        canonical_name="Ada Lovelace",
        namespace="people",
        aliases=["Ada", "Ada Lovelace"],
    )


def test_registering_an_entity_again_adds_names_and_keeps_the_rest(hold: holdfast.Holdfast) -> None:
    first = hold.entity_register(
        canonical_name="Ada", namespace="people", content="Wrote the first program.", metadata={"born": 1815}
    )
    again = hold.entity_register(
        canonical_name="Ada", namespace="people", aliases=["ada", "Countess"], metadata={"died": 1852}
    )
    memory = hold.get(id=first.entity_id)
    assert (again.entity_id, again.created, again.aliases) == (first.entity_id, False, ["Ada", "Countess"])
    assert (memory.content, memory.metadata) == ("Wrote the first program.", {"born": 1815, "died": 1852})


def test_registering_the_same_entity_twice_writes_nothing(hold: holdfast.Holdfast) -> None:
    hold.entity_register(canonical_name="Ada", namespace="people", aliases=["Countess"])
    before = hold.events(limit=1000).next
    hold.entity_register(canonical_name="Ada", namespace="people", aliases=["COUNTESS"])
    assert hold.events(limit=1000).next == before


def test_a_name_that_is_the_title_of_another_memory_is_refused(hold: holdfast.Holdfast) -> None:
    note = hold.store(title="Ada", content="a note", namespace="people")
    with pytest.raises(Conflict) as refused:
        hold.entity_register(canonical_name="Ada", namespace="people")
    assert refused.value.details == {"existing_id": note.id}
    assert hold.get(id=note.id).content == "a note"


def test_a_private_memory_with_the_name_is_not_revealed(hold: holdfast.Holdfast) -> None:
    hold.store(title="Ada", content="mine", namespace="people", scope="private")
    with pytest.raises(TitleTaken) as refused:
        hold.call("entity_register", {"canonical_name": "Ada", "namespace": "people"}, caller=OTHER)
    assert refused.value.details == {}


def test_an_unknown_name_is_not_an_error(hold: holdfast.Holdfast) -> None:
    assert hold.entity_get_by_alias(alias="nobody") == EntityResult(found=False)


def test_the_newest_of_several_entities_with_a_name_is_returned_and_the_others_are_listed(
    hold: holdfast.Holdfast,
) -> None:
    fruit = hold.entity_register(canonical_name="Apple (fruit)", namespace="food", aliases=["Apple"])
    firm = hold.entity_register(canonical_name="Apple Inc.", namespace="firms", aliases=["apple"])
    both, one = hold.entity_get_by_alias(alias="APPLE"), hold.entity_get_by_alias(alias="APPLE", namespace="food")
    assert (both.entity_id, both.also) == (firm.entity_id, [fruit.entity_id])
    assert (one.entity_id, one.also) == (fruit.entity_id, None)


@pytest.mark.parametrize("end", ["archive", "delete"])
def test_an_entity_that_is_not_live_is_not_found(hold: holdfast.Holdfast, end: str) -> None:
    made = hold.entity_register(canonical_name="Ada", namespace="people")
    hold.call(end, {"archive": {"ids": [made.entity_id]}, "delete": {"id": made.entity_id}}[end])
    assert hold.entity_get_by_alias(alias="Ada") == EntityResult(found=False)


def test_an_entity_is_restored_from_the_archive_with_its_names(hold: holdfast.Holdfast) -> None:
    made = hold.entity_register(canonical_name="Ada", namespace="people", aliases=["Countess"])
    hold.archive(ids=[made.entity_id])
    hold.archive_restore(id=made.entity_id)
    assert hold.entity_get_by_alias(alias="countess").entity_id == made.entity_id


def test_an_invisible_entity_is_not_found(hold: holdfast.Holdfast) -> None:
    made = hold.entity_register(canonical_name="Ada", namespace="people")
    hold.update(id=made.entity_id, scope="private")
    assert not hold.call("entity_get_by_alias", {"alias": "Ada"}, caller=OTHER).found
    key = Caller("ai:tester@here", namespaces=("team",))
    assert not hold.call("entity_get_by_alias", {"alias": "Ada"}, caller=key).found


@pytest.mark.parametrize(
    ("given", "field"),
    [({"canonical_name": "\x07bell"}, "canonical_name"), ({"aliases": ["ok", " "]}, "aliases")],
    ids=["control character", "blank alias"],
)
def test_a_name_is_validated_like_a_title(hold: holdfast.Holdfast, given: dict[str, object], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        hold.call("entity_register", {"canonical_name": "Ada", "namespace": "people"} | given)
    assert refused.value.details["fields"] == [field]
    assert hold.namespaces().namespaces == []
