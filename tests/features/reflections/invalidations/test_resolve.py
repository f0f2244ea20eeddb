"""Acknowledge, resolve and dismiss notices."""

from typing import Any

from ways_to_invalidate import Remember, entries

import holdfast


def test_an_invalidation_is_acknowledged_resolved_or_dismissed_with_a_reason(
    clocked_store: holdfast.Holdfast, remember: Remember, seen_by: Any, clock: Any
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    clocked_store.delete(ground)
    (one,) = clocked_store.invalidations().invalidations
    clock.move(days=30)
    for verb, status in (("acknowledge", "acknowledged"), ("dismiss", "dismissed"), ("resolve", "resolved")):
        settle = getattr(seen_by("ai:other@here"), f"invalidations_{verb}")
        answer = settle(ids=[one.id], reason=f"to {verb}")
        assert [(done.id, done.outcome) for done in answer.outcomes] == [(one.id, "applied")]
        (after,) = clocked_store.invalidations(status=[status]).invalidations
        assert (after.dependent_id, after.reason, after.resolver) == (near, f"to {verb}", "ai:other@here")
    assert clocked_store.invalidations(status=["open"]).invalidations == []


def test_resolving_again_changes_nothing_and_a_closed_notice_cannot_be_acknowledged(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    remember("near", ground)
    clocked_store.delete(ground)
    (one,) = clocked_store.invalidations().invalidations
    clocked_store.invalidations_dismiss(ids=[one.id], reason="no matter")
    before = entries(clocked_store)
    assert [done.outcome for done in clocked_store.invalidations_dismiss(ids=[one.id]).outcomes] == ["unchanged"]
    (refused,) = clocked_store.invalidations_acknowledge(ids=[one.id]).outcomes
    assert (refused.outcome, refused.code) == ("rejected", "CONFLICT")
    assert entries(clocked_store) == before


def test_an_unknown_invalidation_does_not_affect_the_others(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    remember("near", ground)
    clocked_store.delete(ground)
    (one,) = clocked_store.invalidations().invalidations
    answer = clocked_store.invalidations_resolve(ids=["nobody", one.id, one.id])
    assert [(done.outcome, done.code) for done in answer.outcomes] == [("rejected", "NOT_FOUND"), ("applied", None)]
    assert answer.count == 1


def test_resolving_suggests_sources_for_a_new_reflection(clocked_store: holdfast.Holdfast, remember: Remember) -> None:
    old, kept, gone = remember("old"), remember("kept"), remember("gone")
    near = remember("near", old, kept, gone)
    newer, newest = remember("newer"), remember("newest")
    clocked_store.delete(gone)
    clocked_store.link(newer, old, relation="supersedes")
    clocked_store.link(newest, newer, relation="supersedes")
    (one,) = clocked_store.invalidations(invalidated_id=old, dependent_id=near).invalidations
    (done,) = clocked_store.invalidations_resolve(ids=[one.id]).outcomes
    assert set(done.reflect_with) == {newest, kept}


def test_resolving_suggests_the_summary_of_consolidated_sources(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    one, other = remember("one"), remember("other")
    remember("near", one)
    made = clocked_store.consolidate(ids=[one, other], title="Both", summary="One and the other.")
    (told_of,) = clocked_store.invalidations().invalidations
    assert clocked_store.invalidations_resolve(ids=[told_of.id]).outcomes[0].reflect_with == [made.id]


def test_invalidations_are_filtered_and_paged(clocked_store: holdfast.Holdfast, remember: Remember, clock: Any) -> None:
    first, second = remember("first"), remember("second")
    near, there = remember("near", first), remember("there", second, namespace="elsewhere")
    clocked_store.delete(first)
    clock.move(seconds=1)
    clocked_store.delete(second)

    def list_dependents(**which: Any) -> list[str]:
        return [one.dependent_id for one in clocked_store.invalidations(**which).invalidations]

    assert list_dependents() == [there, near]
    assert list_dependents(namespace="elsewhere") == [there]
    assert list_dependents(invalidated_id=first) == [near]
    assert list_dependents(dependent_id=there, status=["open", "resolved"]) == [there]
    assert list_dependents(status=["resolved"]) == []
    page = clocked_store.invalidations(limit=1, offset=1)
    assert ([one.dependent_id for one in page.invalidations], page.count, page.total) == ([near], 1, 2)
