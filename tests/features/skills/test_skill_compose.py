"""Composed skills: reflections are valid, visible, relevant and within the budget."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.features.memories.access_log import Uses
from holdfast.features.recall import flush_access as use
from holdfast.kernel.errors import Invalid, NotFound
from holdfast.kernel.text import token_count as tokens
from holdfast.kernel.timestamps import DAY, to_text


def skill(hold: Any, *composed: tuple[str, int], name: str = "deploy", body: str = "# Deploy\n\nCarefully.") -> str:
    entries = "".join(f"  - namespace: {namespace}\n    min_depth: {floor}\n" for namespace, floor in composed)
    head = f"composes_with_reflections:\n{entries}" if composed else ""
    text = f"---\nname: {name}\ndescription: How we deploy.\n{head}---\n{body}\n"
    return str(hold.skill_register(inline_skill=text, namespace="skills").id)


def seen(hold: Any, title: str, namespace: str = "team", **more: Any) -> str:
    return str(hold.store(title=title, content=f"{title} was seen.", namespace=namespace, tier="long", **more).id)


def lesson(hold: Any, title: str, sources: list[str] | None = None, content: str = "", **more: Any) -> str:
    """Store a reflection, by default on a new observation."""
    more = {"namespace": "team", "tier": "long", **more}
    found = sources or [seen(hold, f"{title} once", scope="collective", namespace=more["namespace"])]
    made = hold.reflect(source_ids=found, title=title, content=content or f"{title}: be careful.", **more)
    return str(made.id)


def composed(hold: Any, id: str, **more: Any) -> list[str]:
    return [one.title for one in hold.skill_compositional_context(id, **more).reflections]


def ahead(clock: Any, hours: int) -> str:
    return to_text(clock() + hours * DAY // 24)


def dropped(answer: Any) -> dict[str, int]:
    return {one.reason: one.count for one in answer.dropped}


# Which reflections


def test_a_skill_brings_the_reflections_of_its_namespaces(timed: holdfast.Holdfast) -> None:
    first = lesson(timed, "Deploy early")
    lesson(timed, "Test before", namespace="team/ops/night")
    lesson(timed, "Salt the soup", namespace="home")
    seen(timed, "Just seen")
    answer = timed.skill_compositional_context(skill(timed, ("team", 1)))
    assert {one.title for one in answer.reflections} == {"Deploy early", "Test before"}
    one = next(one for one in answer.reflections if one.id == first)
    assert (one.namespace, one.reflection_depth, one.agent_id, one.content) == (
        "team",
        1,
        "ai:tester@here",
        "Deploy early: be careful.",
    )
    assert (answer.body, answer.skill_name, answer.skill_namespace, answer.current) == (
        "# Deploy\n\nCarefully.",
        "deploy",
        "skills",
        True,
    )
    assert [
        (place.namespace, place.min_depth, place.max_reflection_depth) for place in answer.compositional_namespaces
    ] == [("team", 1, 3)]
    assert (dropped(answer), answer.memories_dropped, answer.budget_tokens) == ({}, 0, 4000)


def test_a_neighbour_of_a_namespace_is_not_below_it(timed: holdfast.Holdfast) -> None:
    for namespace in ("team-a", "team.b", "team0", "teams", "tea"):
        lesson(timed, f"Of {namespace}", namespace=namespace)
    assert composed(timed, skill(timed, ("team", 0))) == []


def test_only_reflections_between_floor_and_ceiling_are_taken(timed: holdfast.Holdfast) -> None:
    one = lesson(timed, "One")
    two = lesson(timed, "Two", [one])
    lesson(timed, "Three", [two])
    assert set(composed(timed, skill(timed, ("team", 2)))) == {"Two", "Three"}
    timed.policy_set(namespace="team", max_reflection_depth=2)
    assert composed(timed, skill(timed, ("team", 2))) == ["Two"]
    assert set(composed(timed, skill(timed, ("team", 0)))) == {"One", "Two"}


def test_a_floor_above_the_ceiling_is_reported(timed: holdfast.Holdfast) -> None:
    lesson(timed, "One")
    answer = timed.skill_compositional_context(skill(timed, ("team", 9), ("team", 1)))
    assert [one.title for one in answer.reflections] == ["One"]
    high, fine = answer.compositional_namespaces
    assert (high.min_depth, high.max_reflection_depth, "maximum depth is 3" in high.note) == (9, 3, True)
    assert fine.note is msgspec.UNSET


def test_what_several_entries_name_is_taken_once(timed: holdfast.Holdfast) -> None:
    lesson(timed, "One", namespace="team/ops")
    answer = timed.skill_compositional_context(skill(timed, ("team", 0), ("team/ops", 1), ("team", 1), ("team", 0)))
    assert [one.title for one in answer.reflections] == ["One"]
    assert len(answer.compositional_namespaces) == 4
    assert dropped(answer) == {}


def test_a_skill_that_names_no_namespace_brings_none(timed: holdfast.Holdfast) -> None:
    lesson(timed, "One")
    answer = timed.skill_compositional_context(skill(timed), query="one")
    assert (answer.reflections, answer.compositional_namespaces, answer.tokens_used) == ([], [], 0)


def test_an_old_version_says_that_it_is_old(timed: holdfast.Holdfast) -> None:
    old = skill(timed, ("team", 0))
    new = skill(timed, ("home", 0))
    answer = timed.skill_compositional_context(old)
    assert (answer.current, answer.superseded_by) == (False, new)
    assert timed.skill_compositional_context("deploy").superseded_by is msgspec.UNSET


# Invalid reflections


def test_what_was_superseded_is_left_out_and_told(timed: holdfast.Holdfast) -> None:
    old, new = lesson(timed, "Old"), lesson(timed, "New")
    timed.link(source_id=new, target_id=old, relation="supersedes")
    answer = timed.skill_compositional_context(skill(timed, ("team", 0)))
    assert [one.title for one in answer.reflections] == ["New"]
    assert [(one.reason, one.ids) for one in answer.dropped] == [("superseded", [old])]


def test_what_stands_on_something_that_fell_is_left_out_until_it_is_settled(timed: holdfast.Holdfast) -> None:
    base = lesson(timed, "Base")
    above = lesson(timed, "Above", [base])
    newer = lesson(timed, "Newer")
    timed.link(source_id=newer, target_id=base, relation="supersedes")
    id = skill(timed, ("team", 0))
    answer = timed.skill_compositional_context(id)
    assert [one.title for one in answer.reflections] == ["Newer"]
    assert {one.reason: one.ids for one in answer.dropped} == {"superseded": [base], "stale": [above]}
    told = [one.id for one in timed.invalidations(dependent_id=above).invalidations]
    timed.invalidations_acknowledge(ids=told)
    assert composed(timed, id) == ["Newer"]
    timed.invalidations_dismiss(ids=told, reason="still so")
    assert set(composed(timed, id)) == {"Newer", "Above"}


def test_what_expired_was_archived_or_deleted_is_left_out(timed: holdfast.Holdfast, clock: Any) -> None:
    short = lesson(timed, "Short", tier="short")
    timed.delete(id=lesson(timed, "Deleted"))
    timed.archive(ids=[lesson(timed, "Archived")], reason="done")
    lesson(timed, "Kept")
    id = skill(timed, ("team", 0))
    assert set(composed(timed, id)) == {"Short", "Kept"}
    clock.move(days=2)
    answer = timed.skill_compositional_context(id)
    assert [one.title for one in answer.reflections] == ["Kept"]
    assert {one.reason: one.ids for one in answer.dropped} == {"expired": [short]}


def test_what_is_declared_untrue_or_not_yet_true_is_left_out_and_told(timed: holdfast.Holdfast, clock: Any) -> None:
    ended, later = lesson(timed, "Ended"), lesson(timed, "Later")
    lesson(timed, "Kept")
    timed.update(id=ended, valid_until=ahead(clock, hours=1))
    timed.update(id=later, valid_from=ahead(clock, hours=2))
    id = skill(timed, ("team", 0))
    assert set(composed(timed, id)) == {"Ended", "Kept"}
    clock.move(hours=1)
    answer = timed.skill_compositional_context(id, query="ended or later")
    assert [one.title for one in answer.reflections] == ["Kept"]
    assert {one.reason: one.ids for one in answer.dropped} == {"ended": [ended], "not_yet": [later]}
    clock.move(hours=1)
    assert set(composed(timed, id)) == {"Later", "Kept"}


def test_what_will_be_superseded_holds_until_then(timed: holdfast.Holdfast, clock: Any) -> None:
    old, new = lesson(timed, "Old"), lesson(timed, "New")
    timed.link(source_id=new, target_id=old, relation="supersedes", valid_from=ahead(clock, hours=1))
    id = skill(timed, ("team", 0))
    assert set(composed(timed, id)) == {"Old", "New"}
    clock.move(hours=1)
    answer = timed.skill_compositional_context(id)
    assert {one.reason: one.ids for one in answer.dropped} == {"superseded": [old]}


def test_many_that_do_not_hold_do_not_hide_those_that_do(timed: holdfast.Holdfast, clock: Any) -> None:
    lesson(timed, "Old and good")
    clock.move(days=30)
    last = lesson(timed, "Newest")
    for number in range(220):
        fallen = lesson(timed, f"Fallen {number}")
        timed.link(source_id=last, target_id=fallen, relation="supersedes")
    answer = timed.skill_compositional_context(skill(timed, ("team", 0)))
    assert [one.title for one in answer.reflections] == ["Newest", "Old and good"]
    assert dropped(answer) == {"superseded": 220}
    assert len(answer.dropped[0].ids) == 50


# Visibility


def test_a_skill_reads_nothing_that_its_caller_cannot(timed: holdfast.Holdfast, seen_by: Callable[..., Any]) -> None:
    lesson(timed, "Mine", scope="private")
    lesson(timed, "Ours")
    lesson(timed, "Theirs", namespace="other")
    id = skill(timed, ("team", 0), ("other", 0))
    assert set(composed(timed, id)) == {"Mine", "Ours", "Theirs"}
    stranger = seen_by("ai:stranger@here")
    assert set(composed(stranger, id, query="mine")) == {"Ours", "Theirs"}
    confined = seen_by("ai:stranger@here", namespaces=("skills", "other"))
    answer = confined.skill_compositional_context(id)
    assert ([one.title for one in answer.reflections], dropped(answer)) == (["Theirs"], {})


def test_nothing_is_told_of_a_namespace_that_is_out_of_reach(
    timed: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    lesson(timed, "Theirs", namespace="other/part")
    id = skill(timed, ("team", 9), ("other", 0), ("other/part", 0))
    confined = seen_by("ai:stranger@here", namespaces=("skills", "other/part"))
    answer = confined.skill_compositional_context(id)
    assert [one.title for one in answer.reflections] == ["Theirs"]
    far, above, near = answer.compositional_namespaces
    assert (far.max_reflection_depth, above.max_reflection_depth) == (msgspec.UNSET, msgspec.UNSET)
    assert (
        far.note
        == above.note
        == ("Your key does not reach this namespace; only reachable namespaces below it were searched.")
    )
    assert (near.max_reflection_depth, near.note) == (3, msgspec.UNSET)


def test_whoever_registers_a_skill_gains_no_sight_by_it(timed: holdfast.Holdfast, seen_by: Callable[..., Any]) -> None:
    secret = lesson(timed, "Secret", scope="private")
    superseded = lesson(timed, "Secret and old", scope="private")
    timed.link(source_id=secret, target_id=superseded, relation="supersedes")
    other = seen_by("ai:stranger@here")
    answer = other.skill_compositional_context(skill(other, ("team", 0)), query="secret")
    assert answer.reflections == []
    assert (dropped(answer), answer.memories_dropped) == ({}, 0)
    confined = seen_by("ai:stranger@here", namespaces=("home",))
    with pytest.raises(NotFound):
        confined.skill_compositional_context("skills/deploy")


# Ranking


def test_the_newer_and_the_more_used_come_first(timed: holdfast.Holdfast, clock: Any) -> None:
    old = lesson(timed, "Old")
    clock.move(days=200)
    lesson(timed, "Middle")
    clock.move(days=60)
    lesson(timed, "New")
    id = skill(timed, ("team", 0))
    answer = timed.skill_compositional_context(id)
    assert [one.title for one in answer.reflections] == ["New", "Middle", "Old"]
    assert [one.score for one in answer.reflections] == pytest.approx([1, 1 - 60 / 365.25, 1 - 260 / 365.25], abs=1e-5)
    use.flush(timed.hold)
    timed.hold.local(Uses).add("ai:tester@here", {old: (60, clock())})
    use.flush(timed.hold)
    best = timed.skill_compositional_context(id).reflections[0]
    assert (best.title, best.score) == ("Old", pytest.approx(1 - 260 / 365.25 + 1, abs=1e-5))


def test_what_bears_on_the_task_comes_before_what_is_only_fresh_and_used(timed: holdfast.Holdfast, clock: Any) -> None:
    lesson(timed, "Rolling back", content="A database migration must be reversible before we deploy it.")
    clock.move(days=400)
    fresh = lesson(timed, "Lunch", content="Soup is best at noon.")
    timed.hold.local(Uses).add("ai:tester@here", {fresh: (99, clock())})
    use.flush(timed.hold)
    id = skill(timed, ("team", 0))
    assert composed(timed, id) == ["Lunch", "Rolling back"]
    assert composed(timed, id, query="deploying a reversible database migration") == ["Rolling back", "Lunch"]


def test_a_query_finds_what_age_and_use_would_not(timed: holdfast.Holdfast, clock: Any) -> None:
    lesson(timed, "Zebra crossing", content="A zebra stood on the runway.")
    clock.move(days=10)
    for number in range(230):
        lesson(timed, f"Note {number}")
    id = skill(timed, ("team", 0), ("team", 1))
    assert "Zebra crossing" not in composed(timed, id)
    answer = timed.skill_compositional_context(id, query="zebra on the runway")
    assert answer.reflections[0].title == "Zebra crossing"
    assert dropped(answer)["rank"] > 0
    assert len(answer.reflections) + sum(dropped(answer).values()) == 231


@pytest.mark.usefixtures("vectors_made")
def test_a_query_finds_by_meaning_where_there_are_vectors(db: str) -> None:
    with holdfast.open(db, agent_id="ai:tester@here") as hold:
        lesson(hold, "Animals", content="The cat sleeps on the sofa all afternoon.")
        lesson(hold, "Money", content="Invoices are paid within thirty days.")
        id = skill(hold, ("team", 0))
        hold.reembed()
        answer = hold.skill_compositional_context(id, query="a kitten napping")
        assert (answer.reflections[0].title, answer.degraded) == ("Animals", msgspec.UNSET)


# Budget


def test_a_budget_counts_what_is_really_sent(timed: holdfast.Holdfast) -> None:
    for number in range(30):
        lesson(timed, f'Lesson "{number}" über Größe', content='Be careful with 漢字 and quotes " and \\ signs.\n' * 5)
    id = skill(timed, ("team", 0))
    for budget in (0, 50, 300, 1000, 4000):
        answer = timed.skill_compositional_context(id, budget_tokens=budget)
        sent = tokens.count(msgspec.json.encode(answer.reflections).decode()) if answer.reflections else 0
        assert sent <= answer.tokens_used <= budget
        assert answer.tokens_used - sent <= len(answer.reflections)
        assert len(answer.reflections) + dropped(answer).get("budget", 0) == 30
        assert answer.memories_dropped == 30 - len(answer.reflections)


def test_one_that_is_too_large_leaves_room_for_smaller_ones(timed: holdfast.Holdfast, clock: Any) -> None:
    lesson(timed, "Small")
    clock.move(days=1)
    large = lesson(timed, "Large", content="very large " * 3000)
    answer = timed.skill_compositional_context(skill(timed, ("team", 0)), budget_tokens=500)
    assert [one.title for one in answer.reflections] == ["Small"]
    assert [(one.reason, one.ids) for one in answer.dropped] == [("budget", [large])]


def test_the_body_is_reported_and_not_counted(timed: holdfast.Holdfast) -> None:
    lesson(timed, "One")
    body = "word " * 20_000
    answer = timed.skill_compositional_context(skill(timed, ("team", 0), body=body), budget_tokens=300)
    assert answer.body_tokens == tokens.count(body.strip())
    assert (answer.body_tokens > 19_000, len(answer.reflections), answer.tokens_used <= 300) == (True, 1, True)


@pytest.mark.parametrize("budget", [-1, 32_001, 1.5])
def test_a_budget_has_its_limits(timed: holdfast.Holdfast, budget: float) -> None:
    with pytest.raises(Invalid, match="budget_tokens"):
        timed.skill_compositional_context(skill(timed), budget_tokens=budget)


def test_composing_writes_nothing_but_notes_what_was_used(timed: holdfast.Holdfast) -> None:
    made = lesson(timed, "One")
    id = skill(timed, ("team", 0))
    before = timed.verify().head
    timed.skill_compositional_context(id)
    assert timed.verify().head == before
    use.flush(timed.hold)
    assert timed.get(id=made).access_count == 1


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 400), st.booleans()), max_size=8), st.integers(0, 1500)
)
def test_whatever_is_there_the_answer_adds_up(
    timed: holdfast.Holdfast, clock: Any, made: list[tuple[str, int, bool]], budget: int
) -> None:
    begun = clock.at
    place = f"run{timed.verify().entries}"
    held = []
    for number, (namespace, days, falls) in enumerate(made):
        clock.at = begun
        clock.move(days=days)
        id = lesson(timed, f"L{number}", namespace=f"{place}/{namespace}")
        if falls and held:
            timed.link(source_id=id, target_id=held[-1], relation="supersedes")
            held.pop()
        held.append(id)
    clock.at = begun
    clock.move(days=401)
    answer = timed.skill_compositional_context(
        skill(timed, (place, 0), (f"{place}/a", 1), name=place), budget_tokens=budget
    )
    ids = [one.id for one in answer.reflections]
    assert (len(ids), sorted(ids, key=held.index)) == (len(set(ids)), [id for id in held if id in ids])
    assert len(ids) + dropped(answer).get("budget", 0) == len(held)
    assert dropped(answer).get("superseded", 0) == len(made) - len(held)
    scores = [one.score for one in answer.reflections]
    assert scores == sorted(scores, reverse=True)
    assert answer.tokens_used <= budget
