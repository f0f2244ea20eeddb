"""Dependents of an expired memory are stale at once, before it is collected; reads write nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET

import holdfast
from holdfast.kernel.errors import Conflict

Made = tuple[str, str, str]


@pytest.fixture(params=["its life", "what it says"])
def expired_chain(request: pytest.FixtureRequest, timed: holdfast.Holdfast, clock: Any) -> Made:
    """A source that has expired, a reflection on it, and a reflection on that."""
    ends = {"its life": {"expires_at": clock.after(hours=1)}, "what it says": {"valid_until": clock.after(hours=1)}}
    ground = timed.store(title="Ground", content="The road is closed.", **ends[request.param]).id
    near = timed.reflect(source_ids=[ground], title="Near", content="Take the tram.", tier="long").id
    far = timed.reflect(source_ids=[near], title="Far", content="Buy a ticket.", tier="long").id
    assert timed.invalidations().total == 0
    clock.move(hours=2)
    return ground, near, far


def test_it_is_marked_wherever_it_is_read(timed: holdfast.Holdfast, expired_chain: Made) -> None:
    _, near, far = expired_chain
    before = timed.events(limit=1000).events
    found = {hit.id: hit.stale for hit in timed.recall("take the tram, buy a ticket").memories}
    assert {id: (found[id].cause, found[id].hop) for id in (near, far)} == {near: ("expired", 1), far: ("expired", 2)}
    assert timed.get(far).stale.cause == "expired"
    assert "stale" in timed.context("take the tram").text
    assert [one.stale for one in timed.dependents(near).dependents] == [True]
    listed = timed.invalidations(status=["open"])
    assert [(one.dependent_id, one.hop, one.cause) for one in listed.invalidations] == [
        (near, 1, "expired"),
        (far, 2, "expired"),
    ]
    assert timed.invalidations(dependent_id=far, limit=1).total == 1
    assert timed.invalidations(status=["dismissed"]).total == 0
    assert timed.events(limit=1000).events == before


def test_no_skill_brings_it_along_or_is_made_of_it(timed: holdfast.Holdfast, expired_chain: Made, clock: Any) -> None:
    text = "---\nname: go\ndescription: How to go.\ncomposes_with_reflections: [{namespace: global}]\n---\nGo.\n"
    answer = timed.skill_compositional_context(timed.skill_register(inline_skill=text).id)
    assert (answer.reflections, [(one.reason, one.count) for one in answer.dropped]) == ([], [("stale", 2)])
    with pytest.raises(Conflict, match="stale"):
        timed.skill_promote_from_reflection(expired_chain[2], skill_name="ride", skill_description="How to ride.")


def test_what_is_shown_is_what_will_be_told(timed: holdfast.Holdfast, expired_chain: Made) -> None:
    shown = [(one.id, one.hop, one.cause, one.status) for one in timed.invalidations().invalidations]
    timed.gc()
    assert sorted((one.id, one.hop, one.cause, one.status) for one in timed.invalidations().invalidations) == sorted(
        shown
    )
    assert timed.get(expired_chain[1]).stale.count == 1


def test_what_is_shown_can_be_settled_and_stays_so_when_it_is_collected(
    timed: holdfast.Holdfast, expired_chain: Made
) -> None:
    _, near, far = expired_chain
    (one,) = timed.invalidations(dependent_id=near).invalidations
    assert timed.invalidations_dismiss(ids=[one.id], reason="holds anyway").count == 1
    for _ in range(2):
        assert {one.dependent_id: one.status for one in timed.invalidations().invalidations} == {
            near: "dismissed",
            far: "open",
        }
        timed.gc()
    assert timed.get(near).stale is UNSET


def test_nobody_learns_of_a_ground_or_a_dependent_that_is_not_to_be_seen(
    timed: holdfast.Holdfast, seen_by: Callable[..., Any], clock: Any
) -> None:
    hidden = timed.store(title="Hidden", content="A secret.", scope="private", expires_at=clock.after(hours=1)).id
    shown = timed.reflect(source_ids=[hidden], title="Shown", content="So.", scope="collective", tier="long").id
    timed.reflect(source_ids=[hidden], title="Own", content="So, too.", scope="private", tier="long")
    clock.move(hours=2)
    other = seen_by("ai:other@here")
    (one,) = other.invalidations().invalidations
    assert (one.dependent_id, one.invalidated_id) == (shown, UNSET)
    assert other.get(shown).stale.invalidated_id is UNSET
