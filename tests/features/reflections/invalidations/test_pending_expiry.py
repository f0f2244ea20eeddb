"""Dependents of an expired memory are stale at once, before it is collected; reads write nothing."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import Conflict

ExpiredChain = tuple[str, str, str]


@pytest.fixture(params=["its life", "what it says"])
def expired_chain(request: pytest.FixtureRequest, clocked_store: holdfast.Holdfast, clock: Any) -> ExpiredChain:
    """A source that has expired, a reflection on it, and a reflection on that."""
    ends = {"its life": {"expires_at": clock.after(hours=1)}, "what it says": {"valid_until": clock.after(hours=1)}}
    ground = clocked_store.store(title="Ground", content="The road is closed.", **ends[request.param]).id
    near = clocked_store.reflect(source_ids=[ground], title="Near", content="Take the tram.", tier="long").id
    far = clocked_store.reflect(source_ids=[near], title="Far", content="Buy a ticket.", tier="long").id
    assert clocked_store.invalidations().total == 0
    clock.move(hours=2)
    return ground, near, far


def test_a_dependent_of_an_expired_source_is_marked_wherever_it_is_read(
    clocked_store: holdfast.Holdfast, expired_chain: ExpiredChain
) -> None:
    _, near, far = expired_chain
    before = clocked_store.events(limit=1000).events
    found = {hit.id: hit.stale for hit in clocked_store.recall("take the tram, buy a ticket").memories}
    assert {id: (found[id].cause, found[id].hop) for id in (near, far)} == {near: ("expired", 1), far: ("expired", 2)}
    assert clocked_store.get(far).stale.cause == "expired"
    assert "stale" in clocked_store.context("take the tram").text
    assert [one.stale for one in clocked_store.dependents(near).dependents] == [True]
    listed = clocked_store.invalidations(status=["open"])
    assert [(one.dependent_id, one.hop, one.cause) for one in listed.invalidations] == [
        (near, 1, "expired"),
        (far, 2, "expired"),
    ]
    assert clocked_store.invalidations(dependent_id=far, limit=1).total == 1
    assert clocked_store.invalidations(status=["dismissed"]).total == 0
    assert clocked_store.events(limit=1000).events == before


def test_a_stale_reflection_is_not_used_in_skills(
    clocked_store: holdfast.Holdfast, expired_chain: ExpiredChain, clock: Any
) -> None:
    text = "---\nname: go\ndescription: How to go.\ncomposes_with_reflections: [{namespace: global}]\n---\nGo.\n"
    answer = clocked_store.skill_compositional_context(clocked_store.skill_register(inline_skill=text).id)
    assert (answer.reflections, [(one.reason, one.count) for one in answer.dropped]) == ([], [("stale", 2)])
    with pytest.raises(Conflict, match="stale"):
        clocked_store.skill_promote_from_reflection(
            expired_chain[2], skill_name="ride", skill_description="How to ride."
        )


def test_the_computed_notice_equals_the_stored_one(
    clocked_store: holdfast.Holdfast, expired_chain: ExpiredChain
) -> None:
    shown = [(one.id, one.hop, one.cause, one.status) for one in clocked_store.invalidations().invalidations]
    clocked_store.gc()
    assert sorted(
        (one.id, one.hop, one.cause, one.status) for one in clocked_store.invalidations().invalidations
    ) == sorted(shown)
    assert clocked_store.get(expired_chain[1]).stale.count == 1


def test_a_computed_notice_can_be_resolved_and_stays_resolved_after_collection(
    clocked_store: holdfast.Holdfast, expired_chain: ExpiredChain
) -> None:
    _, near, far = expired_chain
    (one,) = clocked_store.invalidations(dependent_id=near).invalidations
    assert clocked_store.invalidations_dismiss(ids=[one.id], reason="holds anyway").count == 1
    for _ in range(2):
        assert {one.dependent_id: one.status for one in clocked_store.invalidations().invalidations} == {
            near: "dismissed",
            far: "open",
        }
        clocked_store.gc()
    assert clocked_store.get(near).stale is None


def test_invisible_sources_and_dependents_are_not_revealed(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any], clock: Any
) -> None:
    hidden = clocked_store.store(
        title="Hidden", content="A secret.", scope="private", expires_at=clock.after(hours=1)
    ).id
    shown = clocked_store.reflect(source_ids=[hidden], title="Shown", content="So.", scope="collective", tier="long").id
    clocked_store.reflect(source_ids=[hidden], title="Own", content="So, too.", scope="private", tier="long")
    clock.move(hours=2)
    other = seen_by("ai:other@here")
    (one,) = other.invalidations().invalidations
    assert (one.dependent_id, one.invalidated_id) == (shown, None)
    assert other.get(shown).stale.invalidated_id is None
