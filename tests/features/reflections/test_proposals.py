"""Proposals: deterministic, each made once, without a model."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import Invalid, NotFound

DEPLOYS = [f"The deploy on Friday failed: the rollback script of service {name} broke." for name in "abcd"]
OTHERS = ["Soup is served at noon.", "The printer on the third floor hums.", "Ann prefers tea over coffee."]


@pytest.fixture
def store_observations(hold: holdfast.Holdfast) -> Callable[..., list[str]]:
    """Store texts as observations of a namespace; return their ids."""

    def store_observations(texts: list[str], namespace: str = "team", **more: Any) -> list[str]:
        rows = [{"title": text, "content": text, "namespace": namespace, **more} for text in texts]
        return list(hold.bulk_store(memories=rows).ids)

    return store_observations


def source_sets(answer: Any) -> list[list[str]]:
    return [one.source_ids for one in answer.suggestions]


def test_observations_sharing_words_are_proposed_together(
    hold: holdfast.Holdfast, store_observations: Callable[..., list[str]]
) -> None:
    alike = store_observations(DEPLOYS)
    store_observations(OTHERS)
    (one,) = hold.reflect_suggest().suggestions
    assert (one.source_ids, one.namespace, one.method) == (sorted(alike), "team", "heuristic")
    assert {"deploy", "friday", "rollback"} & set(one.shared)
    assert one.reason.startswith("4 recent observations share: ")


def test_without_a_model_a_draft_consists_of_source_sentences(
    hold: holdfast.Holdfast, store_observations: Callable[..., list[str]]
) -> None:
    store_observations(DEPLOYS)
    (one,) = hold.reflect_suggest(dry_run=True).suggestions
    assert all(sentence in DEPLOYS for sentence in one.draft.content.replace(". ", ".|").split("|"))
    assert (one.draft.title, one.draft.method) == (", ".join(one.shared), "heuristic")


def test_all_namespaces_are_searched_by_default(
    hold: holdfast.Holdfast, store_observations: Callable[..., list[str]]
) -> None:
    first, second, third = (store_observations(DEPLOYS, namespace) for namespace in ("a", "b/c", "b"))
    assert sorted(source_sets(hold.reflect_suggest(dry_run=True))) == sorted(map(sorted, (first, second, third)))
    assert sorted(source_sets(hold.reflect_suggest(namespace="b", dry_run=True))) == sorted(
        map(sorted, (second, third))
    )


def test_the_same_observations_make_the_same_proposals(
    hold: holdfast.Holdfast, store_observations: Callable[..., list[str]]
) -> None:
    store_observations([*DEPLOYS, *OTHERS, *(f"Rain at noon over the harbour in week {n}." for n in range(5))])
    first = hold.reflect_suggest(dry_run=True)
    assert first.count == 2
    assert all(hold.reflect_suggest(dry_run=True) == first for _ in range(3))


def test_a_dry_run_records_nothing_and_a_proposal_is_made_once(
    hold: holdfast.Holdfast, store_observations: Callable[..., list[str]]
) -> None:
    store_observations(DEPLOYS)
    before = hold.events(limit=100).events
    looked = hold.reflect_suggest(dry_run=True)
    offered = hold.reflect_suggest()
    assert source_sets(looked) == source_sets(offered)
    assert hold.reflect_suggest().count == 0
    assert source_sets(hold.reflect_suggest(again=True)) == source_sets(offered)
    assert hold.events(limit=100).events == before


def test_a_dismissed_group_is_never_proposed_again(
    hold: holdfast.Holdfast, store_observations: Callable[..., list[str]]
) -> None:
    store_observations(DEPLOYS)
    (one,) = hold.reflect_suggest().suggestions
    hold.reflect_dismiss(offer_id=one.offer_id)
    assert hold.reflect_suggest(again=True).count == 0


def test_sources_of_a_reflection_are_not_proposed_until_it_is_deleted(
    hold: holdfast.Holdfast, store_observations: Callable[..., list[str]]
) -> None:
    store_observations(DEPLOYS)
    (one,) = hold.reflect_suggest().suggestions
    made = hold.reflect(source_ids=one.source_ids, title="Fridays", content="Deploy on other days.")
    assert hold.reflect_suggest(again=True).count == 0
    with hold.ctx.reading() as session:
        assert session.row("reflection_proposal_get", id=one.offer_id)[-1] == "accepted"  # type: ignore[index]
    hold.delete(made.id)
    store_observations(["The deploy on Friday failed: the rollback script of service z broke."], title="z")
    assert hold.reflect_suggest().count == 1


def test_only_recent_observations_are_proposed(
    hold: holdfast.Holdfast, store_observations: Callable[..., list[str]], clock: Any
) -> None:
    store_observations(DEPLOYS, tier="long")
    clock.move(days=31)
    assert hold.reflect_suggest(dry_run=True).count == 0
    assert hold.reflect_suggest(days=40, dry_run=True).count == 1


def test_only_visible_observations_are_proposed(
    hold: holdfast.Holdfast, store_observations: Callable[..., list[str]], seen_by: Callable[..., Any]
) -> None:
    store_observations(DEPLOYS[:2])
    store_observations(DEPLOYS[2:], scope="private")
    assert seen_by("ai:other@here").reflect_suggest(dry_run=True).count == 0
    assert seen_by("ai:other@here").reflect_suggest(min_size=2, dry_run=True).count == 1
    store_observations(DEPLOYS, "decided", kind="decision")
    assert hold.reflect_suggest(namespace="decided").count == 0


def test_a_proposal_has_the_requested_number_of_sources(
    hold: holdfast.Holdfast, store_observations: Callable[..., list[str]]
) -> None:
    store_observations(DEPLOYS)
    assert [len(one) for one in source_sets(hold.reflect_suggest(max_size=3, dry_run=True))] == [3]
    assert hold.reflect_suggest(min_size=5, dry_run=True).count == 0
    with pytest.raises(Invalid):
        hold.reflect_suggest(min_size=5, max_size=4)


def test_a_proposal_that_was_not_made_cannot_be_dismissed(
    hold: holdfast.Holdfast, store_observations: Callable[..., list[str]], seen_by: Callable[..., Any]
) -> None:
    store_observations(DEPLOYS)
    (one,) = hold.reflect_suggest().suggestions
    for caller, id in ((hold, "no-such-offer"), (seen_by("ai:far@here", namespaces=("far",)), one.offer_id)):
        with pytest.raises(NotFound):
            caller.reflect_dismiss(offer_id=id)
