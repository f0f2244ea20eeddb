"""Lessons and outcomes: confidence from evidence, rewordings merged, nothing lost."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.features.learning.lesson_rules import Evidence
from holdfast.kernel.errors import Forbidden, Invalid, NotFound

RULE = "Run every migration on a copy of the database first."
SAME = "Run every migration first on a copy of the database."


def learn(ctx: Any, rule: str = RULE, domain: str = "databases", **more: Any) -> Any:
    return ctx.lesson_add(rule=rule, domain=domain, **more)


def rules(ctx: Any, **more: Any) -> list[str]:
    return [lesson.rule for lesson in ctx.lesson_list(**more).lessons]


def test_a_lesson_is_a_memory_with_confidence_from_its_evidence(clocked_store: holdfast.Holdfast) -> None:
    lesson = learn(clocked_store).lesson
    assert (lesson.positive, lesson.negative, round(lesson.confidence, 3)) == (1, 0, 0.667)
    (hit,) = clocked_store.recall("what to do before a migration").memories
    assert (hit.id, hit.memory_kind) == (lesson.id, "lesson")
    assert Evidence().confidence == 0.5


def test_a_reworded_rule_raises_the_confidence_and_is_kept(clocked_store: holdfast.Holdfast) -> None:
    first = learn(clocked_store).lesson
    again = learn(clocked_store, SAME)
    assert (again.created, again.lesson.id, again.lesson.occurrences, again.lesson.positive) == (False, first.id, 2, 2)
    assert again.lesson.also_said == [SAME]
    assert learn(clocked_store).lesson.also_said == [SAME]
    assert clocked_store.lesson_list().count == 1


def test_rules_of_other_principals_namespaces_and_domains_are_separate(clocked_store: holdfast.Holdfast) -> None:
    for more in ({}, {"domain": "testing"}, {"namespace": "shop"}, {"principal": "ann"}):
        assert learn(clocked_store, **more).created
    assert clocked_store.lesson_list().count == 4
    assert clocked_store.lesson_list(principal="ann").count == 1


def test_outcomes_raise_and_lower_the_confidence(clocked_store: holdfast.Holdfast) -> None:
    first, second = (
        learn(clocked_store),
        learn(clocked_store, "Keep transactions short so that nobody waits for a lock."),
    )
    clocked_store.outcome_record(score=-1, domain="databases", lesson_id=first.lesson.id, what="The copy was too old.")
    done = clocked_store.outcome_record(score=-1, domain="databases", what=RULE)
    assert (done.lesson.id, done.lesson.negative, done.lesson.confidence) == (first.lesson.id, 2, 0.4)
    assert rules(clocked_store) == [second.lesson.rule, RULE]
    clocked_store.outcome_record(score=0, domain="databases", lesson_id=first.lesson.id)
    assert clocked_store.lesson_list().lessons[1].negative == 2


def test_beyond_ten_lessons_the_weakest_is_archived_but_never_the_new_one(
    clocked_store: holdfast.Holdfast, clock: Any
) -> None:
    names = ("alpha bravo charlie delta echo foxtrot golf hotel india juliett kilo lima").split()
    made = []
    for name in names[:10]:
        clock.move(seconds=1)
        made.append(learn(clocked_store, f"Use {name} for every {name}.").lesson)
    clocked_store.outcome_record(score=1, domain="databases", lesson_id=made[0].id)
    gone = []
    for name in names[10:]:
        clock.move(seconds=1)
        gone += learn(clocked_store, f"Use {name} for every {name}.").archived
    assert gone == [made[1].id, made[2].id]
    assert len(rules(clocked_store)) == 10
    assert rules(clocked_store)[0] == made[0].rule
    clocked_store.archive_restore(id=made[1].id)
    assert made[1].rule in rules(clocked_store)


def test_lessons_of_a_project_come_before_the_general_ones(clocked_store: holdfast.Holdfast) -> None:
    general = learn(clocked_store, "Write the test before the code that it tests.").lesson.rule
    learn(clocked_store, "Write the test before the code that it tests.")
    team = learn(clocked_store, "Ask the reviewer of the day for consent.", namespace="shop").lesson.rule
    own = learn(clocked_store, "Deploy the till before the shelves.", namespace="shop/till").lesson.rule
    learn(clocked_store, "Never deploy on a Friday.", namespace="bank")
    assert rules(clocked_store, namespace="shop/till") == [own, team, general]
    assert rules(clocked_store, namespace="global") == [general]
    assert len(rules(clocked_store)) == 4
    assert len(rules(clocked_store, limit=2)) == 2


def test_three_similar_outcomes_propose_a_lesson_that_keeps_them_as_evidence(clocked_store: holdfast.Holdfast) -> None:
    said = [
        "The build failed because the cache of the compiler was stale.",
        "Build failed because the compiler's cache was stale.",
        "The build failed, because the cache of the compiler was stale.",
    ]
    told = [clocked_store.outcome_record(score=-1, domain="build", what=what) for what in said]
    assert [one.proposes is None for one in told] == [True, True, False]
    assert clocked_store.outcome_record(score=-1, domain="build", what="The network was down.").proposes is None
    (proposal,) = clocked_store.lesson_suggest().proposals
    assert (proposal.score, sorted(proposal.outcomes)) == (-1, sorted(one.id for one in told))
    lesson = learn(
        clocked_store, "Clear the compiler's cache before a release.", "build", outcomes=proposal.outcomes
    ).lesson
    assert (lesson.positive, round(lesson.confidence, 2)) == (3, 0.8)
    assert clocked_store.lesson_suggest().count == 0
    assert {one.lesson_id for one in clocked_store.outcome_list(domain="build").outcomes} == {lesson.id, None}


def test_outcomes_are_listed_newest_first_and_by_namespace(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    for number, namespace in enumerate(("global", "shop", "shop")):
        clock.move(seconds=1)
        clocked_store.outcome_record(score=1, domain="d", what=f"number {number}", namespace=namespace)
    assert [one.what for one in clocked_store.outcome_list().outcomes] == ["number 2", "number 1", "number 0"]
    assert [one.what for one in clocked_store.outcome_list(namespace="shop", limit=1).outcomes] == ["number 2"]
    assert clocked_store.outcome_list(since=clock.after(seconds=1)).count == 0


@pytest.mark.parametrize("score", [2, -2, "1", 0.5, None])
def test_a_score_is_one_of_three(clocked_store: holdfast.Holdfast, score: Any) -> None:
    with pytest.raises(Invalid):
        clocked_store.outcome_record(score=score, domain="d")
    assert clocked_store.outcome_list().count == 0


def test_an_agent_sees_its_own_outcomes_and_all_lessons(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    learn(clocked_store)
    clocked_store.outcome_record(score=1, domain="d", what="mine")
    other = seen_by("ai:else@here", right="write")
    assert other.outcome_list().count == 0
    assert rules(other) == [RULE]
    with pytest.raises(NotFound):
        other.outcome_record(score=1, domain="d", lesson_id="no-such-lesson")
    with pytest.raises(Forbidden):
        seen_by("ai:reader@here", right="read").outcome_record(score=1, domain="d")
