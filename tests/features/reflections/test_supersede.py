"""Superseded memories show their replacement; a cycle terminates."""

from typing import Any

import pytest

import holdfast

QUESTION = "where is the office?"


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


def ring(ctx: Any, *cities: str) -> list[str]:
    """A cycle: each city memory supersedes the one before it."""
    ids = [ctx.store(title=city, content=f"The office is in {city}.", tier="long").id for city in cities]
    for old, new in zip(ids, [*ids[1:], ids[0]], strict=True):
        ctx.link(new, old, relation="supersedes")
    return ids


@pytest.mark.parametrize("cities", [("Bonn", "Rome"), ("Bonn", "Rome", "Oslo")], ids=["of two", "of three"])
def test_every_memory_of_a_supersession_cycle_is_recalled_with_its_successor(
    hold: Any, cities: tuple[str, ...]
) -> None:
    ids = ring(hold, *cities)
    found = hold.recall(QUESTION).memories
    assert {hit.id: hit.superseded_by for hit in found} == dict(zip(ids, [*ids[1:], ids[0]], strict=True))


def test_a_block_shows_every_memory_of_a_supersession_cycle_and_no_final_one(hold: Any) -> None:
    ids = ring(hold, "Bonn", "Rome", "Oslo")
    block = hold.context(QUESTION)
    told = [line for line in block.text.splitlines() if line.startswith("[")]
    assert sorted(block.cited) == sorted(ids)
    assert [line.count("supersede each other: unclear which is current") for line in told] == [1, 1, 1]
    assert "now:" not in block.text


def test_a_supersession_cycle_larger_than_the_block_terminates(hold: Any) -> None:
    ring(hold, *(f"town {n}" for n in range(60)))
    assert hold.context(QUESTION, budget=100_000).text
    assert hold.recall(QUESTION, limit=50).count == 50


def test_why_not_terminates_on_a_supersession_cycle(hold: Any) -> None:
    one, _ = ring(hold, "Bonn", "Rome")
    assert hold.why_not(one, QUESTION).returned


def test_ending_one_link_breaks_a_supersession_cycle(hold: Any, clock: Any) -> None:
    bonn, rome = ring(hold, "Bonn", "Rome")
    clock.move(seconds=1)
    hold.kg_invalidate(source_id=bonn, target_id=rome, relation="supersedes")
    text = hold.context(QUESTION).text
    assert "was: Bonn: The office is in Bonn. -> " in text
    assert "now: Rome: The office is in Rome." in text


def test_a_linked_memory_is_returned_with_its_replacement(hold: Any) -> None:
    engine = hold.store(title="Engine", content="The locomotive of platform nine is serviced on Mondays.").id
    green = hold.store(title="Colour", content="It is painted green.").id
    blue = hold.store(title="Colour now", content="It has been blue since spring.").id
    hold.link(engine, green)
    hold.link(blue, green, relation="supersedes")
    found = {hit.id: hit.superseded_by for hit in hold.recall("locomotive of platform nine").memories}
    assert found[green] == blue
    assert "was: Colour: It is painted green." in hold.context("locomotive of platform nine").text
