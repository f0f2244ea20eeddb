"""Composed skills: reflections are valid, visible, relevant and within the budget."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.features.memories.store import AccessLog
from holdfast.features.recall import flush_access
from holdfast.kernel.errors import Invalid, NotFound
from holdfast.kernel.text import token_count
from holdfast.kernel.timestamps import DAY, format_timestamp


def register_skill(
    ctx: Any, *composed: tuple[str, int], name: str = "deploy", body: str = "# Deploy\n\nCarefully."
) -> str:
    entries = "".join(f"  - namespace: {namespace}\n    min_depth: {floor}\n" for namespace, floor in composed)
    head = f"composes_with_reflections:\n{entries}" if composed else ""
    text = f"---\nname: {name}\ndescription: How we deploy.\n{head}---\n{body}\n"
    return str(ctx.skill_register(inline_skill=text, namespace="skills").id)


def store_observation(ctx: Any, title: str, namespace: str = "team", **more: Any) -> str:
    return str(ctx.store(title=title, content=f"{title} was seen.", namespace=namespace, tier="long", **more).id)


def store_lesson(ctx: Any, title: str, sources: list[str] | None = None, content: str = "", **more: Any) -> str:
    """Store a reflection, by default on a new observation."""
    more = {"namespace": "team", "tier": "long", **more}
    found = sources or [store_observation(ctx, f"{title} once", scope="collective", namespace=more["namespace"])]
    made = ctx.reflect(source_ids=found, title=title, content=content or f"{title}: be careful.", **more)
    return str(made.id)


def compose_titles(ctx: Any, id: str, **more: Any) -> list[str]:
    return [one.title for one in ctx.skill_compositional_context(id, **more).reflections]


def hours_ahead(clock: Any, hours: int) -> str:
    return format_timestamp(clock() + hours * DAY // 24)


def count_dropped(answer: Any) -> dict[str, int]:
    return {one.reason: one.count for one in answer.dropped}


# Which reflections


def test_a_skill_includes_the_reflections_of_its_namespaces(clocked_store: holdfast.Holdfast) -> None:
    first = store_lesson(clocked_store, "Deploy early")
    store_lesson(clocked_store, "Test before", namespace="team/ops/night")
    store_lesson(clocked_store, "Salt the soup", namespace="home")
    store_observation(clocked_store, "Just seen")
    answer = clocked_store.skill_compositional_context(register_skill(clocked_store, ("team", 1)))
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
    assert (count_dropped(answer), answer.memories_dropped, answer.budget_tokens) == ({}, 0, 4000)


def test_a_sibling_namespace_is_not_below_a_namespace(clocked_store: holdfast.Holdfast) -> None:
    for namespace in ("team-a", "team.b", "team0", "teams", "tea"):
        store_lesson(clocked_store, f"Of {namespace}", namespace=namespace)
    assert compose_titles(clocked_store, register_skill(clocked_store, ("team", 0))) == []


def test_only_reflections_between_the_minimum_and_maximum_depth_are_included(clocked_store: holdfast.Holdfast) -> None:
    one = store_lesson(clocked_store, "One")
    two = store_lesson(clocked_store, "Two", [one])
    store_lesson(clocked_store, "Three", [two])
    assert set(compose_titles(clocked_store, register_skill(clocked_store, ("team", 2)))) == {"Two", "Three"}
    clocked_store.policy_set(namespace="team", max_reflection_depth=2)
    assert compose_titles(clocked_store, register_skill(clocked_store, ("team", 2))) == ["Two"]
    assert set(compose_titles(clocked_store, register_skill(clocked_store, ("team", 0)))) == {"One", "Two"}


def test_a_minimum_depth_above_the_maximum_is_reported(clocked_store: holdfast.Holdfast) -> None:
    store_lesson(clocked_store, "One")
    answer = clocked_store.skill_compositional_context(register_skill(clocked_store, ("team", 9), ("team", 1)))
    assert [one.title for one in answer.reflections] == ["One"]
    high, fine = answer.compositional_namespaces
    assert (high.min_depth, high.max_reflection_depth, "maximum depth is 3" in high.note) == (9, 3, True)
    assert fine.note is None


def test_a_reflection_named_by_several_entries_is_included_once(clocked_store: holdfast.Holdfast) -> None:
    store_lesson(clocked_store, "One", namespace="team/ops")
    answer = clocked_store.skill_compositional_context(
        register_skill(clocked_store, ("team", 0), ("team/ops", 1), ("team", 1), ("team", 0))
    )
    assert [one.title for one in answer.reflections] == ["One"]
    assert len(answer.compositional_namespaces) == 4
    assert count_dropped(answer) == {}


def test_a_skill_without_namespaces_includes_no_reflections(clocked_store: holdfast.Holdfast) -> None:
    store_lesson(clocked_store, "One")
    answer = clocked_store.skill_compositional_context(register_skill(clocked_store), query="one")
    assert (answer.reflections, answer.compositional_namespaces, answer.tokens_used) == ([], [], 0)


def test_an_old_version_is_marked_as_old(clocked_store: holdfast.Holdfast) -> None:
    old = register_skill(clocked_store, ("team", 0))
    new = register_skill(clocked_store, ("home", 0))
    answer = clocked_store.skill_compositional_context(old)
    assert (answer.current, answer.superseded_by) == (False, new)
    assert clocked_store.skill_compositional_context("deploy").superseded_by is None


# Invalid reflections


def test_superseded_reflections_are_left_out_and_reported(clocked_store: holdfast.Holdfast) -> None:
    old, new = store_lesson(clocked_store, "Old"), store_lesson(clocked_store, "New")
    clocked_store.link(source_id=new, target_id=old, relation="supersedes")
    answer = clocked_store.skill_compositional_context(register_skill(clocked_store, ("team", 0)))
    assert [one.title for one in answer.reflections] == ["New"]
    assert [(one.reason, one.ids) for one in answer.dropped] == [("superseded", [old])]


def test_stale_reflections_are_left_out_until_their_notices_are_dismissed(clocked_store: holdfast.Holdfast) -> None:
    base = store_lesson(clocked_store, "Base")
    above = store_lesson(clocked_store, "Above", [base])
    newer = store_lesson(clocked_store, "Newer")
    clocked_store.link(source_id=newer, target_id=base, relation="supersedes")
    id = register_skill(clocked_store, ("team", 0))
    answer = clocked_store.skill_compositional_context(id)
    assert [one.title for one in answer.reflections] == ["Newer"]
    assert {one.reason: one.ids for one in answer.dropped} == {"superseded": [base], "stale": [above]}
    told = [one.id for one in clocked_store.invalidations(dependent_id=above).invalidations]
    clocked_store.invalidations_acknowledge(ids=told)
    assert compose_titles(clocked_store, id) == ["Newer"]
    clocked_store.invalidations_dismiss(ids=told, reason="still so")
    assert set(compose_titles(clocked_store, id)) == {"Newer", "Above"}


def test_expired_archived_and_deleted_reflections_are_left_out(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    short = store_lesson(clocked_store, "Short", tier="short")
    clocked_store.delete(id=store_lesson(clocked_store, "Deleted"))
    clocked_store.archive(ids=[store_lesson(clocked_store, "Archived")], reason="done")
    store_lesson(clocked_store, "Kept")
    id = register_skill(clocked_store, ("team", 0))
    assert set(compose_titles(clocked_store, id)) == {"Short", "Kept"}
    clock.move(days=2)
    answer = clocked_store.skill_compositional_context(id)
    assert [one.title for one in answer.reflections] == ["Kept"]
    assert {one.reason: one.ids for one in answer.dropped} == {"expired": [short]}


def test_reflections_not_valid_now_are_left_out_and_reported(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    ended, later = store_lesson(clocked_store, "Ended"), store_lesson(clocked_store, "Later")
    store_lesson(clocked_store, "Kept")
    clocked_store.update(id=ended, valid_until=hours_ahead(clock, hours=1))
    clocked_store.update(id=later, valid_from=hours_ahead(clock, hours=2))
    id = register_skill(clocked_store, ("team", 0))
    assert set(compose_titles(clocked_store, id)) == {"Ended", "Kept"}
    clock.move(hours=1)
    answer = clocked_store.skill_compositional_context(id, query="ended or later")
    assert [one.title for one in answer.reflections] == ["Kept"]
    assert {one.reason: one.ids for one in answer.dropped} == {"ended": [ended], "not_yet": [later]}
    clock.move(hours=1)
    assert set(compose_titles(clocked_store, id)) == {"Later", "Kept"}


def test_a_reflection_with_a_future_supersession_is_included_until_then(
    clocked_store: holdfast.Holdfast, clock: Any
) -> None:
    old, new = store_lesson(clocked_store, "Old"), store_lesson(clocked_store, "New")
    clocked_store.link(source_id=new, target_id=old, relation="supersedes", valid_from=hours_ahead(clock, hours=1))
    id = register_skill(clocked_store, ("team", 0))
    assert set(compose_titles(clocked_store, id)) == {"Old", "New"}
    clock.move(hours=1)
    answer = clocked_store.skill_compositional_context(id)
    assert {one.reason: one.ids for one in answer.dropped} == {"superseded": [old]}


def test_many_invalid_reflections_do_not_hide_valid_ones(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    store_lesson(clocked_store, "Old and good")
    clock.move(days=30)
    last = store_lesson(clocked_store, "Newest")
    for number in range(220):
        fallen = store_lesson(clocked_store, f"Fallen {number}")
        clocked_store.link(source_id=last, target_id=fallen, relation="supersedes")
    answer = clocked_store.skill_compositional_context(register_skill(clocked_store, ("team", 0)))
    assert [one.title for one in answer.reflections] == ["Newest", "Old and good"]
    assert count_dropped(answer) == {"superseded": 220}
    assert len(answer.dropped[0].ids) == 50


# Visibility


def test_a_skill_reads_only_what_its_caller_can_read(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    store_lesson(clocked_store, "Mine", scope="private")
    store_lesson(clocked_store, "Ours")
    store_lesson(clocked_store, "Theirs", namespace="other")
    id = register_skill(clocked_store, ("team", 0), ("other", 0))
    assert set(compose_titles(clocked_store, id)) == {"Mine", "Ours", "Theirs"}
    stranger = seen_by("ai:stranger@here")
    assert set(compose_titles(stranger, id, query="mine")) == {"Ours", "Theirs"}
    confined = seen_by("ai:stranger@here", namespaces=("skills", "other"))
    answer = confined.skill_compositional_context(id)
    assert ([one.title for one in answer.reflections], count_dropped(answer)) == (["Theirs"], {})


def test_a_namespace_out_of_reach_is_noted_without_details(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    store_lesson(clocked_store, "Theirs", namespace="other/part")
    id = register_skill(clocked_store, ("team", 9), ("other", 0), ("other/part", 0))
    confined = seen_by("ai:stranger@here", namespaces=("skills", "other/part"))
    answer = confined.skill_compositional_context(id)
    assert [one.title for one in answer.reflections] == ["Theirs"]
    far, above, near = answer.compositional_namespaces
    assert (far.max_reflection_depth, above.max_reflection_depth) == (None, None)
    assert (
        far.note
        == above.note
        == ("Your key does not reach this namespace; only reachable namespaces below it were searched.")
    )
    assert (near.max_reflection_depth, near.note) == (3, None)


def test_registering_a_skill_grants_no_access(clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]) -> None:
    secret = store_lesson(clocked_store, "Secret", scope="private")
    superseded = store_lesson(clocked_store, "Secret and old", scope="private")
    clocked_store.link(source_id=secret, target_id=superseded, relation="supersedes")
    other = seen_by("ai:stranger@here")
    answer = other.skill_compositional_context(register_skill(other, ("team", 0)), query="secret")
    assert answer.reflections == []
    assert (count_dropped(answer), answer.memories_dropped) == ({}, 0)
    confined = seen_by("ai:stranger@here", namespaces=("home",))
    with pytest.raises(NotFound):
        confined.skill_compositional_context("skills/deploy")


# Ranking


def test_newer_and_more_used_reflections_come_first(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    old = store_lesson(clocked_store, "Old")
    clock.move(days=200)
    store_lesson(clocked_store, "Middle")
    clock.move(days=60)
    store_lesson(clocked_store, "New")
    id = register_skill(clocked_store, ("team", 0))
    answer = clocked_store.skill_compositional_context(id)
    assert [one.title for one in answer.reflections] == ["New", "Middle", "Old"]
    assert [one.score for one in answer.reflections] == pytest.approx([1, 1 - 60 / 365.25, 1 - 260 / 365.25], abs=1e-5)
    flush_access.flush_access_log(clocked_store.ctx)
    clocked_store.ctx.local[AccessLog].add("ai:tester@here", {old: (60, clock())})
    flush_access.flush_access_log(clocked_store.ctx)
    best = clocked_store.skill_compositional_context(id).reflections[0]
    assert (best.title, best.score) == ("Old", pytest.approx(1 - 260 / 365.25 + 1, abs=1e-5))


def test_relevant_reflections_come_before_fresh_and_used_ones(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    store_lesson(clocked_store, "Rolling back", content="A database migration must be reversible before we deploy it.")
    clock.move(days=400)
    fresh = store_lesson(clocked_store, "Lunch", content="Soup is best at noon.")
    clocked_store.ctx.local[AccessLog].add("ai:tester@here", {fresh: (99, clock())})
    flush_access.flush_access_log(clocked_store.ctx)
    id = register_skill(clocked_store, ("team", 0))
    assert compose_titles(clocked_store, id) == ["Lunch", "Rolling back"]
    assert compose_titles(clocked_store, id, query="deploying a reversible database migration") == [
        "Rolling back",
        "Lunch",
    ]


def test_a_query_finds_old_and_unused_reflections(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    store_lesson(clocked_store, "Zebra crossing", content="A zebra stood on the runway.")
    clock.move(days=10)
    for number in range(230):
        store_lesson(clocked_store, f"Note {number}")
    id = register_skill(clocked_store, ("team", 0), ("team", 1))
    assert "Zebra crossing" not in compose_titles(clocked_store, id)
    answer = clocked_store.skill_compositional_context(id, query="zebra on the runway")
    assert answer.reflections[0].title == "Zebra crossing"
    assert count_dropped(answer)["rank"] > 0
    assert len(answer.reflections) + sum(count_dropped(answer).values()) == 231


@pytest.mark.usefixtures("vectors_made")
def test_a_query_finds_reflections_by_meaning_where_embeddings_exist(db: str) -> None:
    with holdfast.open(db, agent_id="ai:tester@here") as hold:
        store_lesson(hold, "Animals", content="The cat sleeps on the sofa all afternoon.")
        store_lesson(hold, "Money", content="Invoices are paid within thirty days.")
        id = register_skill(hold, ("team", 0))
        hold.reembed()
        answer = hold.skill_compositional_context(id, query="a kitten napping")
        assert (answer.reflections[0].title, answer.degraded) == ("Animals", None)


# Budget


def test_a_budget_counts_the_tokens_actually_sent(clocked_store: holdfast.Holdfast) -> None:
    for number in range(30):
        store_lesson(
            clocked_store,
            f'Lesson "{number}" über Größe',
            content='Be careful with 漢字 and quotes " and \\ signs.\n' * 5,
        )
    id = register_skill(clocked_store, ("team", 0))
    for budget in (0, 50, 300, 1000, 4000):
        answer = clocked_store.skill_compositional_context(id, budget_tokens=budget)
        sent = (
            token_count.count_tokens(msgspec.json.encode([one.to_dict() for one in answer.reflections]).decode())
            if answer.reflections
            else 0
        )
        assert sent <= answer.tokens_used <= budget
        assert answer.tokens_used - sent <= len(answer.reflections)
        assert len(answer.reflections) + count_dropped(answer).get("budget", 0) == 30
        assert answer.memories_dropped == 30 - len(answer.reflections)


def test_a_too_large_reflection_leaves_room_for_smaller_ones(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    store_lesson(clocked_store, "Small")
    clock.move(days=1)
    large = store_lesson(clocked_store, "Large", content="very large " * 3000)
    answer = clocked_store.skill_compositional_context(register_skill(clocked_store, ("team", 0)), budget_tokens=500)
    assert [one.title for one in answer.reflections] == ["Small"]
    assert [(one.reason, one.ids) for one in answer.dropped] == [("budget", [large])]


def test_the_body_is_reported_and_not_counted(clocked_store: holdfast.Holdfast) -> None:
    store_lesson(clocked_store, "One")
    body = "word " * 20_000
    answer = clocked_store.skill_compositional_context(
        register_skill(clocked_store, ("team", 0), body=body), budget_tokens=300
    )
    assert answer.body_tokens == token_count.count_tokens(body.strip())
    assert (answer.body_tokens > 19_000, len(answer.reflections), answer.tokens_used <= 300) == (True, 1, True)


@pytest.mark.parametrize("budget", [-1, 32_001, 1.5])
def test_a_budget_has_limits(clocked_store: holdfast.Holdfast, budget: float) -> None:
    with pytest.raises(Invalid, match="budget_tokens"):
        clocked_store.skill_compositional_context(register_skill(clocked_store), budget_tokens=budget)


def test_composing_writes_nothing_but_access_counts(clocked_store: holdfast.Holdfast) -> None:
    made = store_lesson(clocked_store, "One")
    id = register_skill(clocked_store, ("team", 0))
    before = clocked_store.verify().head
    clocked_store.skill_compositional_context(id)
    assert clocked_store.verify().head == before
    flush_access.flush_access_log(clocked_store.ctx)
    assert clocked_store.get(id=made).access_count == 1


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 400), st.booleans()), max_size=8), st.integers(0, 1500)
)
def test_the_counts_of_any_answer_add_up(
    clocked_store: holdfast.Holdfast, clock: Any, made: list[tuple[str, int, bool]], budget: int
) -> None:
    begun = clock.at
    place = f"run{clocked_store.verify().entries}"
    held = []
    for number, (namespace, days, falls) in enumerate(made):
        clock.at = begun
        clock.move(days=days)
        id = store_lesson(clocked_store, f"L{number}", namespace=f"{place}/{namespace}")
        if falls and held:
            clocked_store.link(source_id=id, target_id=held[-1], relation="supersedes")
            held.pop()
        held.append(id)
    clock.at = begun
    clock.move(days=401)
    answer = clocked_store.skill_compositional_context(
        register_skill(clocked_store, (place, 0), (f"{place}/a", 1), name=place), budget_tokens=budget
    )
    ids = [one.id for one in answer.reflections]
    assert (len(ids), sorted(ids, key=held.index)) == (len(set(ids)), [id for id in held if id in ids])
    assert len(ids) + count_dropped(answer).get("budget", 0) == len(held)
    assert count_dropped(answer).get("superseded", 0) == len(made) - len(held)
    scores = [one.score for one in answer.reflections]
    assert scores == sorted(scores, reverse=True)
    assert answer.tokens_used <= budget
