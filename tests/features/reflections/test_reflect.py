"""Reflections: sources, depth, and refusals."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import DepthExceeded, DepthMismatch, Forbidden, HoldfastError, Invalid, NotFound, TitleTaken

Make = Callable[..., str]


def entries(hold: holdfast.Holdfast) -> list[Any]:
    return list(hold.events(limit=1000).events)


def test_a_reflection_is_one_deeper_than_its_deepest_source(
    hold: holdfast.Holdfast, observe: Make, reflect: Make
) -> None:
    a, b = observe("a"), observe("b", namespace="elsewhere")
    first = reflect("first", a)
    answer = hold.reflect(source_ids=[b, first], title="second", content="It follows.")
    assert (answer.reflection_depth, answer.reflects_on, answer.namespace) == (2, [b, first], "elsewhere")
    assert (hold.get(answer.id).memory_kind, hold.get(answer.id).reflection_depth) == ("reflection", 2)


def test_a_reflection_its_links_and_their_journal_entries_are_one_transaction(
    hold: holdfast.Holdfast, observe: Make, reflect: Make
) -> None:
    a, b = observe("a"), observe("b")
    before = len(entries(hold))
    made = reflect("so", a, b)
    told = entries(hold)[before:]
    assert [(entry.kind, entry.op) for entry in told] == [("memory", "reflect"), ("link", "link"), ("link", "link")]
    assert told[0].record == made
    with hold.ctx.reading() as session:
        batches = session.query_sql("select distinct batch from journal where seq >= :first", {"first": told[0].seq})
    assert len(batches) == 1
    assert hold.verify().intact


def test_a_refused_reflection_leaves_nothing_behind(hold: holdfast.Holdfast, observe: Make, reflect: Make) -> None:
    a = observe("a")
    deep = reflect("third", reflect("second", reflect("first", a)))
    before = entries(hold)
    for wrong in (
        {"source_ids": [deep], "title": "fourth"},
        {"source_ids": [a], "title": "first"},
        {"source_ids": [a, "no-such-memory"], "title": "x"},
        {"source_ids": [a, a], "title": "x"},
        {"source_ids": [a], "title": "x", "depth": 2},
        {"source_ids": [a], "title": "x", "namespace": "no blanks"},
        {"source_ids": [a], "title": " "},
    ):
        with pytest.raises(HoldfastError):
            hold.reflect(content="It follows.", **wrong)
    assert entries(hold) == before


def test_the_default_depth_limit_is_three_and_a_policy_can_forbid_reflections(
    hold: holdfast.Holdfast, observe: Make, reflect: Make
) -> None:
    a = observe("a")
    third = reflect("third", reflect("second", reflect("first", a)))
    with pytest.raises(DepthExceeded) as refused:
        reflect("fourth", third)
    assert refused.value.details == {"depth": 4, "max_reflection_depth": 3, "namespace": "global"}
    hold.policy_set(namespace="quiet", max_reflection_depth=0)
    with pytest.raises(DepthExceeded):
        reflect("none", a, namespace="quiet")


def test_the_depth_cap_of_the_target_namespace_applies(hold: holdfast.Holdfast, observe: Make, reflect: Make) -> None:
    hold.policy_set(namespace="deep", max_reflection_depth=4)
    third = reflect("third", reflect("second", reflect("first", observe("a"))))
    assert hold.get(reflect("fourth", third, namespace="deep/er")).reflection_depth == 4


def test_a_taken_title_is_refused_not_merged(hold: holdfast.Holdfast, observe: Make, reflect: Make) -> None:
    a, taken = observe("a"), observe("taken")
    with pytest.raises(TitleTaken):
        reflect("taken", a)
    assert hold.get(taken).content == "taken is so."


@pytest.mark.parametrize("stated", [1, 3, 9])
def test_a_stated_depth_must_match_the_computed_one(
    observe: Make, reflect: Make, hold: holdfast.Holdfast, stated: int
) -> None:
    first = reflect("first", observe("a"))
    with pytest.raises(DepthMismatch):
        reflect("second", first, depth=stated)
    assert hold.get(reflect("second", first, depth=2)).reflection_depth == 2


def test_a_repeated_source_is_refused_by_its_position(observe: Make, reflect: Make) -> None:
    a, b = observe("a"), observe("b")
    with pytest.raises(Invalid) as refused:
        reflect("so", a, b, a)
    assert refused.value.details["fields"] == ["source_ids[2]"]
    with pytest.raises(Invalid) as refused:
        reflect("so", b, a, b[:35])
    assert refused.value.details["fields"] == ["source_ids[2]"]


def test_a_missing_source_is_named_by_its_position(observe: Make, reflect: Make) -> None:
    with pytest.raises(NotFound) as refused:
        reflect("so", observe("a"), "no-such-memory")
    assert refused.value.details["fields"] == ["source_ids[1]"]


@pytest.mark.parametrize("number", [0, 257, 10_000])
def test_the_number_of_sources_has_a_minimum_and_a_maximum(reflect: Make, number: int) -> None:
    with pytest.raises(Invalid):
        reflect("so", *(f"id-{place}" for place in range(number)))


def test_the_maximum_number_of_sources_is_accepted(
    hold: holdfast.Holdfast, ground: Callable[[str], set[str]], reflect: Make
) -> None:
    stored = hold.bulk_store(memories=[{"title": f"m {n}", "content": "It is so."} for n in range(256)])
    assert len(ground(reflect("so", *stored.ids))) == 99


def test_a_deleted_or_archived_memory_cannot_be_reflected_on(
    hold: holdfast.Holdfast, observe: Make, reflect: Make
) -> None:
    gone, away = observe("gone"), observe("away")
    hold.delete(gone)
    hold.archive(ids=[away])
    for source in (gone, away):
        with pytest.raises(NotFound):
            reflect("so", source)


def test_sources_invisible_to_the_caller_are_not_found(
    hold: holdfast.Holdfast, observe: Make, seen_by: Callable[..., Any]
) -> None:
    far, secret = observe("far", namespace="theirs"), observe("secret", namespace="ours", scope="private")
    key = seen_by("ai:other@here", namespaces=("ours",))
    told = set()
    for source in (far, secret, "no-such-memory"):
        with pytest.raises(NotFound) as refused:
            key.reflect(source_ids=[source], title="so", content="It follows.", namespace="ours")
        told.add(refused.value.message.replace(source, "ID"))
    assert len(told) == 1


def test_a_key_reflects_only_into_its_namespaces(observe: Make, seen_by: Callable[..., Any]) -> None:
    near = observe("near", namespace="ours")
    key = seen_by("ai:other@here", namespaces=("ours",))
    with pytest.raises(Forbidden):
        key.reflect(source_ids=[near], title="so", content="It follows.", namespace="theirs")
    assert key.reflect(source_ids=[near], title="so", content="It follows.").namespace == "ours"


def test_a_reflection_on_a_private_source_is_private_by_default(
    hold: holdfast.Holdfast, observe: Make, reflect: Make
) -> None:
    secret, known = observe("secret", scope="private"), observe("known")
    assert hold.get(reflect("quiet", known, secret)).scope == "private"
    assert hold.get(reflect("loud", known, secret, scope="team")).scope == "team"
    assert hold.get(reflect("open", known)).scope == "collective"
