"""What stands on something that fell: told once for each cause, all or nothing, on whichever way it fell."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET

import holdfast
from holdfast.domain.errors import HoldfastError, Invalid, NotFound
from holdfast.domain.invalidation import id_of
from holdfast.services import history
from holdfast.storage import journal, records

Remember = Callable[..., str]
Told = tuple[str, str, str, int, str, str]


@pytest.fixture
def remember(timed: holdfast.Holdfast) -> Remember:
    def remember(title: str, *sources: str, relation: str = "derived_from", **more: Any) -> str:
        """Keep a memory that stands on some others."""
        given = {"title": title, "content": f"about {title}", "tier": "long", "namespace": "team"} | more
        id = str(timed.store(**given).id)
        for source in sources:
            timed.link(id, source, relation=relation)
        return id

    return remember


def told(hold: holdfast.Holdfast) -> set[Told]:
    """Every invalidation that there is: fallen, heir, dependent, hop, cause, status."""
    with hold.hold.reading() as session:
        rows = [records.INVALIDATION.load(row) for row in session.rows("invalidation_all", after="", limit=10_000)]
    return {
        (one.invalidated, one.invalidating, one.dependent, one.hop, one.cause, one.status)
        for one in rows
        if one.state == "live"
    }


def entries(hold: holdfast.Holdfast) -> list[journal.Entry]:
    with hold.hold.reading() as session:
        return [entry for entry in journal.pages(session) if entry.kind == "invalidation"]


# How something falls


def superseded(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    return hold.link(heir, fallen, relation="supersedes")


def deleted(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    return hold.delete(fallen)


def archived(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    return hold.archive(ids=[fallen])


def forgotten(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    return hold.forget(namespace="fallen")


def ended(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    return hold.update(fallen, valid_until="2020-01-01")


def imported(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    link = {"source_id": heir, "target_id": fallen, "relation": "supersedes"}
    assert hold.call("import", {"envelope": {"memories": [], "links": [link]}}).rejected == 0


WAYS: dict[str, tuple[Callable[..., Any], str]] = {
    "superseded": (superseded, "superseded"),
    "deleted": (deleted, "deleted"),
    "archived": (archived, "archived"),
    "forgotten": (forgotten, "archived"),
    "ended": (ended, "invalidated"),
    "imported": (imported, "superseded"),
}


@pytest.mark.parametrize("way", WAYS)
def test_everything_that_stands_on_a_memory_is_told_whichever_way_it_falls(
    timed: holdfast.Holdfast, remember: Remember, way: str
) -> None:
    fall, cause = WAYS[way]
    fallen, heir = remember("fallen", namespace="fallen"), remember("heir")
    near = remember("near", fallen, relation="reflects_on")
    far = remember("far", near, relation="derives_from")
    remember("beside")
    answer = fall(timed, fallen, heir)
    by = heir if cause == "superseded" else fallen
    assert told(timed) == {(fallen, by, near, 1, cause, "open"), (fallen, by, far, 2, cause, "open")}
    if answer is not None:
        assert answer.invalidation_notified == [near, far]


def test_what_was_made_of_several_takes_their_place_and_is_not_stale_itself(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    one, other = remember("one"), remember("other")
    near = remember("near", one)
    made = timed.consolidate(ids=[one, other], title="Both", summary="One and the other.")
    assert told(timed) == {(one, made.id, near, 1, "archived", "open")}
    assert made.invalidation_notified == [near]


def test_what_stands_on_an_expired_memory_is_told_when_it_is_collected(
    timed: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    brief, near = remember("brief", tier="short"), remember("near")
    timed.link(near, brief, relation="derived_from")
    clock.move(days=1)
    assert told(timed) == set()
    assert timed.gc().invalidation_notified == [near]
    assert told(timed) == {(brief, brief, near, 1, "expired", "open")}
    assert timed.gc().invalidation_notified is UNSET


def test_an_expired_memory_that_lets_go_of_its_title_tells_what_stands_on_it(
    timed: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    brief = remember("brief", tier="short")
    near = remember("near", brief)
    clock.move(days=1)
    remember("brief")
    assert told(timed) == {(brief, brief, near, 1, "expired", "open")}


def test_what_ends_by_itself_tells_when_it_is_collected_and_tells_once(
    timed: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    until = remember("until tomorrow", valid_until=clock.after(days=1))
    near = remember("near", until)
    timed.gc()
    assert told(timed) == set()
    clock.move(days=2)
    timed.gc()
    timed.gc()
    assert told(timed) == {(until, until, near, 1, "expired", "open")}
    assert len(entries(timed)) == 1


def test_a_memory_whose_link_to_its_ground_is_ended_is_told_and_what_stands_on_it(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near, beside = remember("near", ground), remember("beside", ground)
    far = remember("far", near)
    answer = timed.kg_invalidate(near, ground, "derived_from")
    assert told(timed) == {
        (ground, ground, near, 1, "invalidated", "open"),
        (ground, ground, far, 2, "invalidated", "open"),
    }
    assert answer.invalidation_notified == [near, far]
    assert beside not in answer.invalidation_notified


def test_what_a_peer_changed_tells_what_stands_on_it_and_stays_told_when_it_comes_back(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    timed.archive(ids=[ground])
    with timed.hold.writing() as write:
        write.changed_by_peer([ground])
    timed.archive_restore(ground)
    assert told(timed) == {(ground, ground, near, 1, "changed", "open")}


@pytest.mark.parametrize(
    ("new", "stale"),
    [({"content": "said otherwise"}, True), ({"title": "other"}, True), ({"priority": 9}, False)],
    ids=["content", "title", "neither"],
)
def test_an_import_that_changes_what_a_memory_says_tells_what_stands_on_it(
    timed: holdfast.Holdfast, remember: Remember, new: dict[str, Any], stale: bool
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    (row,) = [row for row in timed.export()["memories"] if row["id"] == ground]
    later = row | new | {"updated_at": "2100-02-01", "version": 2}
    assert timed.call("import", {"envelope": {"memories": [later]}}).merged == 1
    assert told(timed) == ({(ground, ground, near, 1, "changed", "open")} if stale else set())


def test_an_import_that_is_merged_into_the_holder_of_its_title_tells_what_stands_on_that(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    (row,) = [row for row in timed.export()["memories"] if row["id"] == ground]
    same_title = row | {"id": "019c1347-0000-7000-8000-000000000001", "content": "said otherwise elsewhere"}
    assert timed.call("import", {"envelope": {"memories": [same_title]}}).merged == 1
    assert told(timed) == {(ground, ground, near, 1, "changed", "open")}


def test_a_supersession_that_begins_later_is_told_when_its_time_has_come(
    timed: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("near", fallen)
    timed.link(heir, fallen, relation="supersedes", valid_from=clock.after(days=1))
    late = remember("late", fallen)
    timed.gc()
    assert told(timed) == set()
    clock.move(days=2)
    assert set(timed.gc().invalidation_notified) == {near, late}
    assert {one[:5] for one in told(timed)} == {(fallen, heir, id, 1, "superseded") for id in (near, late)}
    assert timed.gc().invalidation_notified is UNSET
    timed.kg_invalidate(heir, fallen, "supersedes")
    assert {one[5] for one in told(timed)} == {"resolved"}


def test_a_supersession_that_is_taken_back_before_its_time_tells_nobody(
    timed: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    remember("near", fallen)
    timed.link(heir, fallen, relation="supersedes", valid_from=clock.after(days=1))
    timed.kg_invalidate(heir, fallen, "supersedes")
    clock.move(days=2)
    timed.gc()
    assert told(timed) == set()


@pytest.mark.parametrize("collected", [True, False], ids=["collected", "not collected"])
def test_a_link_to_a_ground_that_ends_by_itself_is_told_and_taken_back_when_it_holds_again(
    timed: holdfast.Holdfast, remember: Remember, clock: Any, collected: bool
) -> None:
    ground, near = remember("ground"), remember("near")
    far = remember("far", near)
    timed.link(near, ground, relation="derived_from", valid_until=clock.after(days=1))
    clock.move(days=2)
    if collected:
        assert timed.gc().invalidation_notified == [near, far]
        assert timed.gc().invalidation_notified is UNSET
        assert {one[:5] for one in told(timed)} == {
            (ground, ground, near, 1, "invalidated"),
            (ground, ground, far, 2, "invalidated"),
        }
    timed.link(near, ground, relation="derived_from")
    timed.gc()
    assert {one[5] for one in told(timed)} == ({"resolved"} if collected else set())


# What is built on what fell


@pytest.mark.parametrize("relation", ["reflects_on", "derives_from", "derived_from"])
def test_what_is_built_on_a_stale_memory_is_stale_for_the_same_reason_and_what_stands_on_it(
    timed: holdfast.Holdfast, remember: Remember, relation: str
) -> None:
    ground, late = remember("ground"), remember("late")
    near, beyond = remember("near", ground), remember("beyond", late)
    timed.archive(ids=[ground])
    assert timed.link(late, near, relation=relation).invalidation_notified == [late, beyond]
    assert told(timed) == {
        (ground, ground, near, 1, "archived", "open"),
        (ground, ground, late, 2, "archived", "open"),
        (ground, ground, beyond, 3, "archived", "open"),
    }


def test_a_reflection_on_a_stale_memory_is_stale_from_the_start(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground, heir = remember("ground"), remember("heir")
    near = remember("near", ground)
    timed.link(heir, ground, relation="supersedes")
    late = timed.reflect(source_ids=[near], title="late", content="drawn from what is stale").id
    mark = timed.get(late).stale
    assert (mark.cause, mark.hop, mark.invalidated_id, mark.invalidating_id) == ("superseded", 2, ground, heir)


@pytest.mark.parametrize("way", ["superseded", "archived", "ended"])
def test_what_is_built_on_a_memory_that_fell_already_is_stale(
    timed: holdfast.Holdfast, remember: Remember, way: str
) -> None:
    fall, cause = WAYS[way]
    fallen, heir, late = remember("fallen"), remember("heir"), remember("late")
    fall(timed, fallen, heir)
    link = {"source_id": late, "target_id": fallen, "relation": "derived_from"}
    assert timed.call("import", {"envelope": {"memories": [], "links": [link]}}).rejected == 0
    assert told(timed) == {(fallen, heir if way == "superseded" else fallen, late, 1, cause, "open")}


def test_an_heir_that_is_said_to_derive_from_what_it_superseded_is_not_stale(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    old, new = remember("old"), remember("new")
    near = remember("near", old)
    timed.link(new, old, relation="supersedes")
    timed.link(new, old, relation="derived_from")
    timed.link(new, near, relation="derived_from")
    assert {one[2] for one in told(timed)} == {near}


def test_what_is_built_on_a_memory_whose_invalidation_was_settled_is_not_stale(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    timed.archive(ids=[ground])
    (one,) = timed.invalidations().invalidations
    timed.invalidations_dismiss(ids=[one.id])
    remember("late", near)
    assert {one[2] for one in told(timed)} == {near}


def test_a_summary_is_stale_with_what_it_sums_up_and_an_import_makes_no_summary_stale(
    timed: holdfast.Holdfast, remember: Remember, tmp_path: Any, clock: Any
) -> None:
    ground, one, other = remember("ground"), remember("one"), remember("other")
    near = remember("near", ground)
    timed.consolidate(ids=[one, other], title="Both", summary="One and the other.")
    timed.archive(ids=[ground])
    made = timed.consolidate(ids=[near, remember("more")], title="Stale", summary="Near and more.")
    assert {each[2] for each in told(timed)} == {near, made.id}
    with holdfast.open(str(tmp_path / "copy.db"), agent_id="ai:tester@here", now=clock) as copy:
        assert copy.call("import", {"envelope": timed.export()}).rejected == 0
        assert told(copy) == told(timed)


def test_what_does_not_fall_tells_nobody(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    timed.update(ground, content="said otherwise", valid_until="2100-01-01")
    timed.link(near, ground, relation="related_to")
    timed.delete(near)
    assert told(timed) == set()


# Once, whole, bounded


@pytest.mark.parametrize("way", WAYS)
def test_repeating_what_made_something_fall_changes_nothing(
    timed: holdfast.Holdfast, remember: Remember, way: str
) -> None:
    fall, _ = WAYS[way]
    fallen, heir = remember("fallen", namespace="fallen"), remember("heir")
    remember("near", fallen)
    fall(timed, fallen, heir)
    before = entries(timed)
    try:
        again = fall(timed, fallen, heir)
    except HoldfastError:
        again = None
    assert not getattr(again, "invalidation_notified", None)
    assert entries(timed) == before


def test_each_heir_of_one_memory_is_told_of_by_itself(timed: holdfast.Holdfast, remember: Remember) -> None:
    fallen, first, second = remember("fallen"), remember("first"), remember("second")
    near = remember("near", fallen)
    timed.link(first, fallen, relation="supersedes")
    timed.link(second, fallen, relation="supersedes")
    assert told(timed) == {
        (fallen, first, near, 1, "superseded", "open"),
        (fallen, second, near, 1, "superseded", "open"),
    }


def test_an_invalidation_has_the_same_id_on_every_node(timed: holdfast.Holdfast, remember: Remember) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("near", fallen)
    timed.link(heir, fallen, relation="supersedes")
    (one,) = timed.invalidations().invalidations
    assert one.id == id_of(fallen, heir, near)


def test_a_memory_reached_by_two_ways_is_told_once_by_the_shorter(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    both = remember("both", near, ground)
    timed.delete(ground)
    assert {(one[2], one[3]) for one in told(timed)} == {(near, 1), (both, 1)}


def test_memories_that_were_taken_in_deriving_from_each_other_are_each_told_once(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    one = remember("one", ground)
    other = remember("other", one)
    ring = [{"source_id": id, "target_id": other, "relation": "derived_from"} for id in (one, ground)]
    timed.call("import", {"envelope": {"memories": [], "links": ring}})
    timed.delete(ground)
    assert {(told_of[2], told_of[3]) for told_of in told(timed)} == {(one, 1), (other, 2)}


def test_a_policy_says_how_far_a_fall_is_told(timed: holdfast.Holdfast, remember: Remember) -> None:
    timed.call("policy_set", {"namespace": "team", "invalidation_hops": 2})
    chain = [remember("0")]
    for number in range(1, 5):
        chain.append(remember(str(number), chain[-1]))
    timed.delete(chain[0])
    assert {(one[2], one[3]) for one in told(timed)} == {(chain[1], 1), (chain[2], 2)}


def test_an_heir_that_stood_on_what_it_supersedes_is_not_told(timed: holdfast.Holdfast, remember: Remember) -> None:
    old = remember("old")
    new = remember("new", old)
    remember("on the new", new)
    near = remember("near", old)
    timed.link(new, old, relation="supersedes")
    assert {one[2] for one in told(timed)} == {near}


def test_dependents_are_told_and_never_changed(timed: holdfast.Holdfast, remember: Remember) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("near", fallen)
    before = timed.get(near)
    timed.link(heir, fallen, relation="supersedes")
    after = timed.get(near)
    assert (after.version, after.state, after.links) == (before.version, before.state, before.links)


def test_a_change_that_fails_tells_nobody(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    remember("near", ground)

    def fails() -> None:
        with timed.hold.writing() as write:
            memory = write.get(records.MEMORY, ground)
            assert memory is not None
            write.change(records.MEMORY, memory, records.replace(memory, state="deleted"), "delete")
            raise Invalid("The end is missing.")

    with pytest.raises(Invalid):
        fails()
    assert told(timed) == set()
    assert timed.get(ground).state == "live"


def test_a_story_of_falls_verifies_and_names_whoever_caused_them(
    timed: holdfast.Holdfast, remember: Remember, seen_by: Any
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    seen_by("ai:other@here").delete(ground)
    (entry,) = entries(timed)
    assert (entry.actor, entry.op, entry.about) == ("ai:other@here", "flag", near)
    with timed.hold.reading() as session:
        assert history.verify(timed.hold, session) == []


# What comes back


@pytest.mark.parametrize("way", ["archived", "deleted", "ended", "superseded"])
def test_what_comes_back_resolves_what_it_made_stale_and_falling_again_opens_it(
    timed: holdfast.Holdfast, remember: Remember, way: str
) -> None:
    fall, cause = WAYS[way]
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("near", fallen)
    fall(timed, fallen, heir)
    with timed.hold.reading() as session:
        (last,) = [entry.seq for entry in journal.pages(session) if entry.op in ("archive", "delete", "update")] or [0]
    if way == "superseded":
        timed.kg_invalidate(heir, fallen, "supersedes")
    else:
        timed.undo(last)
    by = heir if way == "superseded" else fallen
    assert told(timed) == {(fallen, by, near, 1, cause, "resolved")}
    (one,) = timed.invalidations().invalidations
    assert (one.reason, one.resolver) == ("restored", "ai:tester@here")
    assert timed.get(near).stale is UNSET
    fall(timed, fallen, heir)
    assert told(timed) == {(fallen, by, near, 1, cause, "open")}
    (one,) = timed.invalidations().invalidations
    assert (one.reason, one.resolver) == (UNSET, UNSET)


def test_what_comes_back_leaves_alone_whoever_lost_the_link_to_it(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    left, stays = remember("left", ground), remember("stays", ground)
    timed.archive(ids=[ground])
    timed.kg_invalidate(left, ground, "derived_from")
    timed.archive_restore(ground)
    assert {(one[2], one[5]) for one in told(timed)} == {(left, "open"), (stays, "resolved")}
    timed.link(left, ground, relation="derived_from")
    assert {(one[2], one[5]) for one in told(timed)} == {(left, "resolved"), (stays, "resolved")}


def test_a_memory_that_was_away_when_its_ground_fell_is_stale_when_it_is_back(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    timed.archive(ids=[near])
    assert timed.delete(ground).invalidation_notified == [near]
    timed.archive_restore(near)
    assert timed.get(near).stale.cause == "deleted"


# Settled by somebody


def test_an_invalidation_is_acknowledged_resolved_or_dismissed_with_a_reason(
    timed: holdfast.Holdfast, remember: Remember, seen_by: Any, clock: Any
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    timed.delete(ground)
    (one,) = timed.invalidations().invalidations
    clock.move(days=30)
    for verb, status in (("acknowledge", "acknowledged"), ("dismiss", "dismissed"), ("resolve", "resolved")):
        settle = getattr(seen_by("ai:other@here"), f"invalidations_{verb}")
        answer = settle(ids=[one.id], reason=f"to {verb}")
        assert [(done.id, done.outcome) for done in answer.outcomes] == [(one.id, "applied")]
        (after,) = timed.invalidations(status=[status]).invalidations
        assert (after.dependent_id, after.reason, after.resolver) == (near, f"to {verb}", "ai:other@here")
    assert timed.invalidations(status=["open"]).invalidations == []


def test_settling_again_changes_nothing_and_what_is_settled_is_not_acknowledged(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    remember("near", ground)
    timed.delete(ground)
    (one,) = timed.invalidations().invalidations
    timed.invalidations_dismiss(ids=[one.id], reason="no matter")
    before = entries(timed)
    assert [done.outcome for done in timed.invalidations_dismiss(ids=[one.id]).outcomes] == ["unchanged"]
    (refused,) = timed.invalidations_acknowledge(ids=[one.id]).outcomes
    assert (refused.outcome, refused.code) == ("rejected", "CONFLICT")
    assert entries(timed) == before


def test_one_invalidation_that_is_not_there_leaves_the_others_be(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    remember("near", ground)
    timed.delete(ground)
    (one,) = timed.invalidations().invalidations
    answer = timed.invalidations_resolve(ids=["nobody", one.id, one.id])
    assert [(done.outcome, done.code) for done in answer.outcomes] == [("rejected", "NOT_FOUND"), ("applied", UNSET)]
    assert answer.count == 1


def test_resolving_offers_what_to_reflect_on_instead(timed: holdfast.Holdfast, remember: Remember) -> None:
    old, kept, gone = remember("old"), remember("kept"), remember("gone")
    near = remember("near", old, kept, gone)
    newer, newest = remember("newer"), remember("newest")
    timed.delete(gone)
    timed.link(newer, old, relation="supersedes")
    timed.link(newest, newer, relation="supersedes")
    (one,) = timed.invalidations(invalidated_id=old, dependent_id=near).invalidations
    (done,) = timed.invalidations_resolve(ids=[one.id]).outcomes
    assert set(done.reflect_with) == {newest, kept}


def test_resolving_offers_the_summary_of_what_was_consolidated(timed: holdfast.Holdfast, remember: Remember) -> None:
    one, other = remember("one"), remember("other")
    remember("near", one)
    made = timed.consolidate(ids=[one, other], title="Both", summary="One and the other.")
    (told_of,) = timed.invalidations().invalidations
    assert timed.invalidations_resolve(ids=[told_of.id]).outcomes[0].reflect_with == [made.id]


def test_invalidations_are_listed_by_what_they_are_about_and_in_pages(
    timed: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    first, second = remember("first"), remember("second")
    near, there = remember("near", first), remember("there", second, namespace="elsewhere")
    timed.delete(first)
    clock.move(seconds=1)
    timed.delete(second)

    def listed(**which: Any) -> list[str]:
        return [one.dependent_id for one in timed.invalidations(**which).invalidations]

    assert listed() == [there, near]
    assert listed(namespace="elsewhere") == [there]
    assert listed(invalidated_id=first) == [near]
    assert listed(dependent_id=there, status=["open", "resolved"]) == [there]
    assert listed(status=["resolved"]) == []
    page = timed.invalidations(limit=1, offset=1)
    assert ([one.dependent_id for one in page.invalidations], page.count, page.total) == ([near], 1, 2)


# Shown where it matters


def test_a_stale_memory_is_marked_until_somebody_settles_it(timed: holdfast.Holdfast, remember: Remember) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("quokka", fallen)
    assert timed.get(near).stale is UNSET
    timed.link(heir, fallen, relation="supersedes")
    (hit,) = [one for one in timed.recall(context="quokka").memories if one.id == near]
    assert hit.stale == timed.get(near).stale
    assert (hit.stale.cause, hit.stale.hop, hit.stale.count, hit.stale.status) == ("superseded", 1, 1, "open")
    assert (hit.stale.invalidated_id, hit.stale.invalidating_id) == (fallen, heir)
    assert "(stale: what it rests on is superseded)" in timed.context(query="quokka").text
    assert "superseded" in timed.recall(context="quokka", format="toon").toon
    (one,) = timed.invalidations().invalidations
    timed.invalidations_acknowledge(ids=[one.id])
    assert timed.get(near).stale.status == "acknowledged"
    timed.invalidations_dismiss(ids=[one.id])
    assert timed.get(near).stale is UNSET
    assert all(one.stale is UNSET for one in timed.recall(context="quokka").memories)
    assert "(stale" not in timed.context(query="quokka").text


def test_a_mark_tells_the_nearest_reason_and_how_many_there_are(
    timed: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    root = remember("root")
    ground = remember("ground", root)
    near = remember("near", ground)
    timed.delete(ground)
    clock.move(seconds=1)
    timed.archive(ids=[root])
    mark = timed.get(near).stale
    assert (mark.cause, mark.hop, mark.count, mark.invalidated_id) == ("deleted", 1, 2, ground)


def test_dependents_are_told_with_how_far_they_stand(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    far = remember("far", near)
    found = timed.dependents(ground)
    assert [(one.id, one.hop, one.stale) for one in found.dependents] == [(near, 1, False), (far, 2, False)]
    assert [one.id for one in timed.dependents(ground, hops=1).dependents] == [near]
    assert (timed.dependents(ground, limit=1).count, timed.dependents(ground, limit=1).total) == (1, 2)
    timed.delete(ground)
    assert [one.stale for one in timed.dependents(ground).dependents] == [True, True]
    answer = timed.dependents_of_invalidated(ground)
    assert (answer.memory_id, answer.count) == (ground, 1)
    assert [(one.id, one.namespace) for one in answer.dependents] == [(near, "team")]


def test_unknown_memories_have_no_dependents_and_no_invalidations(timed: holdfast.Holdfast) -> None:
    for asked in (lambda: timed.dependents("nobody"), lambda: timed.invalidations(invalidated_id="nobody")):
        with pytest.raises(NotFound):
            asked()
    assert timed.dependents_of_invalidated("nobody").count == 0


@pytest.mark.parametrize("namespace", ["team", "a/b/c/d/e/f/g/h"], ids=["shallow", "of eight segments"])
def test_the_namespace_of_invalidations_lists_rows_that_are_no_memories(
    timed: holdfast.Holdfast, remember: Remember, namespace: str
) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("near", fallen, namespace=namespace)
    before = (timed.stats().total, timed.namespaces())
    timed.link(heir, fallen, relation="supersedes")
    (row,) = timed.list(namespace=f"{namespace}/_invalidations").memories
    told_of = {
        "dependent_id": near,
        "invalidated_id": fallen,
        "invalidating_id": heir,
        "timestamp": row.created_at,
        "notification_kind": "reflection_invalidation",
    }
    assert row.metadata.items() >= told_of.items()
    assert (row.title, row.agent_id) == (f"invalidation: {fallen} -> {near}", "ai:tester@here")
    assert (timed.stats().total, timed.namespaces()) == before
    assert {one.id for one in timed.recall(context="invalidation fallen near").memories} <= {fallen, heir, near}
    assert timed.search("invalidation").results == []
    with pytest.raises(NotFound):
        timed.get(row.id)
    assert timed.list(namespace="elsewhere/_invalidations").memories == []


def test_nothing_is_written_into_the_namespace_of_invalidations(timed: holdfast.Holdfast, remember: Remember) -> None:
    view, ground = "team/_invalidations", remember("ground")
    below = remember("below", namespace=f"{view}/below")
    ways: list[Callable[[], Any]] = [
        lambda: remember("kept", namespace=view),
        lambda: timed.reflect(source_ids=[ground], title="so", content="It follows.", namespace=view),
        lambda: timed.update(ground, namespace=view),
        lambda: timed.promote(below, to_namespace=view),
        lambda: timed.consolidate(ids=[ground, below], title="Both", summary="Both.", namespace=view),
    ]
    for way in ways:
        with pytest.raises(Invalid, match="is a view"):
            way()
    row = {"id": "m", "title": "m", "content": "x", "namespace": view}
    answer = timed.call("import", {"envelope": {"memories": [row]}})
    assert (answer.rejected, answer.errors[0].code) == (1, "VALIDATION_FAILED")
    assert timed.get(ground).namespace == "team"


# To whom


def test_the_owner_of_a_dependent_hears_of_a_private_fall_without_its_id(
    timed: holdfast.Holdfast, seen_by: Any
) -> None:
    owner, other = seen_by("ai:owner@here"), seen_by("ai:other@here")
    given = {"tier": "long", "namespace": "team"}
    secret = owner.store(title="secret", content="said in private", scope="private", **given).id
    heir = owner.store(title="newer secret", content="said in private too", scope="private", **given).id
    owner.grant(secret, agent_id="ai:other@here", permission="read")
    near = other.store(title="near", content="drawn from it", **given).id
    other.link(near, secret, relation="derived_from")
    owner.revoke(secret, agent_id="ai:other@here")
    assert owner.link(heir, secret, relation="supersedes").invalidation_notified == [near]
    (one,) = other.invalidations().invalidations
    assert (one.dependent_id, one.cause, one.agent_id) == (near, "superseded", "ai:other@here")
    answers = [
        other.invalidations(),
        other.get(near),
        other.recall(context="drawn"),
        other.context(query="drawn"),
        other.list(namespace="team/_invalidations"),
        other.invalidations_resolve(ids=[one.id]),
        other.events(limit=1000),
        other.dependents(near),
    ]
    for answer in answers:
        assert secret not in str(answer)
        assert heir not in str(answer)
    heard = [change.record for change in other.events(limit=1000).events if change.kind == "invalidation"]
    assert heard == [one.id, one.id]
    (mine,) = owner.invalidations(status=["resolved"]).invalidations
    assert (mine.invalidated_id, mine.invalidating_id) == (secret, heir)


def test_whoever_causes_a_fall_hears_nothing_of_private_dependents(timed: holdfast.Holdfast, seen_by: Any) -> None:
    owner, other = seen_by("ai:owner@here"), seen_by("ai:other@here")
    ground = other.store(title="ground", content="for all", tier="long").id
    hidden = owner.store(title="hidden", content="for me", tier="long", scope="private").id
    owner.link(hidden, ground, relation="derived_from")
    assert other.delete(ground).invalidation_notified is UNSET
    assert other.invalidations().invalidations == []
    assert other.dependents(ground).dependents == []
    (one,) = owner.invalidations().invalidations
    assert one.dependent_id == hidden
    (refused,) = other.invalidations_dismiss(ids=[one.id]).outcomes
    assert (refused.outcome, refused.code) == ("rejected", "NOT_FOUND")


def test_whoever_may_only_read_a_private_dependent_does_not_settle_what_it_was_told(
    timed: holdfast.Holdfast, seen_by: Any
) -> None:
    owner, other = seen_by("ai:owner@here"), seen_by("ai:other@here")
    ground = owner.store(title="ground", content="for all", tier="long").id
    hidden = owner.store(title="hidden", content="for me", tier="long", scope="private").id
    owner.link(hidden, ground, relation="derived_from")
    owner.grant(hidden, agent_id="ai:other@here", permission="read")
    owner.delete(ground)
    (one,) = other.invalidations().invalidations
    (refused,) = other.invalidations_resolve(ids=[one.id]).outcomes
    assert (refused.outcome, refused.code) == ("rejected", "FORBIDDEN")


def test_a_key_of_one_namespace_hears_of_its_own_dependents_alone(
    timed: holdfast.Holdfast, remember: Remember, seen_by: Any
) -> None:
    ground = remember("ground", namespace="elsewhere")
    near = remember("near", ground, namespace="team/a")
    remember("far", near, namespace="other")
    timed.delete(ground)
    (one,) = seen_by("ai:key@here", namespaces=("team",)).invalidations().invalidations
    assert (one.dependent_id, one.invalidated_id) == (near, UNSET)


# What else every record goes through


def test_what_was_told_and_settled_survives_an_export(
    timed: holdfast.Holdfast, remember: Remember, tmp_path: Any, clock: Any
) -> None:
    fallen, heir, gone = remember("fallen"), remember("heir"), remember("gone")
    remember("near", fallen, gone)
    timed.link(heir, fallen, relation="supersedes")
    timed.delete(gone)
    first = timed.invalidations(invalidated_id=fallen).invalidations[0]
    timed.invalidations_dismiss(ids=[first.id], reason="no matter")
    envelope = timed.export()
    with holdfast.open(str(tmp_path / "copy.db"), agent_id="ai:tester@here", now=clock) as copy:
        assert copy.call("import", {"envelope": envelope}).rejected == 0
        assert told(copy) == told(timed)
        assert copy.export()["invalidations"] == envelope["invalidations"]
        assert copy.call("import", {"envelope": envelope}).rejected == 0
        assert told(copy) == told(timed)
        with copy.hold.reading() as session:
            assert history.verify(copy.hold, session) == []


@pytest.mark.parametrize(
    "wrong",
    [{"cause": "boredom"}, {"status": "lost"}, {"hop": 0}, {"dependent_id": "nobody"}, {"resolver": "system"}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_an_imported_invalidation_that_makes_no_sense_is_rejected(
    timed: holdfast.Holdfast, remember: Remember, wrong: dict[str, Any]
) -> None:
    row = {
        "invalidated_id": "gone",
        "invalidating_id": "gone",
        "dependent_id": remember("near"),
        "hop": 1,
        "cause": "deleted",
        "status": "open",
    }
    envelope = {"memories": [], "invalidations": [row | wrong]}
    assert timed.call("import", {"envelope": envelope}).rejected == 1
    assert told(timed) == set()
    assert timed.call("import", {"envelope": {"memories": [], "invalidations": [row]}}).rejected == 0
    assert len(told(timed)) == 1


def test_a_purge_takes_what_was_said_of_a_dependent_with_it(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    timed.delete(ground)
    (one,) = timed.invalidations().invalidations
    timed.invalidations_acknowledge(ids=[one.id], reason="CANARY")
    timed.archive(ids=[near])
    timed.archive_purge(ids=[near])
    assert told(timed) == set()
    assert all("CANARY" not in (entry.body or "") for entry in entries(timed))
    with timed.hold.reading() as session:
        assert history.verify(timed.hold, session) == []


def test_an_invalidation_that_was_flagged_can_be_taken_back(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    timed.delete(ground)
    (entry,) = entries(timed)
    timed.undo(entry.seq)
    assert told(timed) == set()
    assert timed.get(near).stale is UNSET


def test_an_undo_by_which_something_falls_names_its_own_change(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    created = timed.history(ground).changes[0].seq
    undone = timed.undo(created)
    assert undone.invalidation_notified == [near]
    assert timed.undo(undone.change).invalidation_notified is UNSET
    assert timed.get(ground).state == "live"
    assert timed.get(near).stale is UNSET


def test_what_stands_on_a_memory_that_an_import_ends_is_told(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    (row,) = [row for row in timed.export()["memories"] if row["id"] == ground]
    over = row | {"tier": "short", "expires_at": "2020-01-01", "updated_at": "2026-02-01", "version": 2}
    assert timed.call("import", {"envelope": {"memories": [over]}}).merged == 1
    assert told(timed) == {(ground, ground, near, 1, "expired", "open")}
