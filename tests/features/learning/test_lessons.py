"""What was learned from how things went: as sure as its evidence, merged with what says the same, never lost."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET

import holdfast
from holdfast.features.learning.lesson import Evidence
from holdfast.kernel.errors import Forbidden, Invalid, NotFound

RULE = "Run every migration on a copy of the database first."
SAME = "Run every migration first on a copy of the database."


def learn(hold: Any, rule: str = RULE, domain: str = "databases", **more: Any) -> Any:
    return hold.lesson_add(rule=rule, domain=domain, **more)


def rules(hold: Any, **more: Any) -> list[str]:
    return [lesson.rule for lesson in hold.lesson_list(**more).lessons]


def test_a_lesson_is_a_memory_as_sure_as_its_evidence(timed: holdfast.Holdfast) -> None:
    lesson = learn(timed).lesson
    assert (lesson.positive, lesson.negative, round(lesson.confidence, 3)) == (1, 0, 0.667)
    (hit,) = timed.recall("what to do before a migration").memories
    assert (hit.id, hit.memory_kind) == (lesson.id, "lesson")
    assert Evidence().confidence == 0.5


def test_the_same_rule_in_other_words_makes_it_surer_and_is_remembered(timed: holdfast.Holdfast) -> None:
    first = learn(timed).lesson
    again = learn(timed, SAME)
    assert (again.created, again.lesson.id, again.lesson.occurrences, again.lesson.positive) == (False, first.id, 2, 2)
    assert again.lesson.also_said == [SAME]
    assert learn(timed).lesson.also_said == [SAME]
    assert timed.lesson_list().count == 1


def test_rules_of_others_places_and_domains_stay_apart(timed: holdfast.Holdfast) -> None:
    for more in ({}, {"domain": "testing"}, {"namespace": "shop"}, {"principal": "ann"}):
        assert learn(timed, **more).created
    assert timed.lesson_list().count == 4
    assert timed.lesson_list(principal="ann").count == 1


def test_how_things_went_makes_a_rule_surer_or_less_so(timed: holdfast.Holdfast) -> None:
    first, second = learn(timed), learn(timed, "Keep transactions short so that nobody waits for a lock.")
    timed.outcome_record(score=-1, domain="databases", lesson_id=first.lesson.id, what="The copy was too old.")
    done = timed.outcome_record(score=-1, domain="databases", what=RULE)
    assert (done.lesson.id, done.lesson.negative, done.lesson.confidence) == (first.lesson.id, 2, 0.4)
    assert rules(timed) == [second.lesson.rule, RULE]
    timed.outcome_record(score=0, domain="databases", lesson_id=first.lesson.id)
    assert timed.lesson_list().lessons[1].negative == 2


def test_of_more_than_ten_the_weakest_is_archived_and_never_the_new_one(timed: holdfast.Holdfast, clock: Any) -> None:
    names = ("alpha bravo charlie delta echo foxtrot golf hotel india juliett kilo lima").split()
    made = []
    for name in names[:10]:
        clock.move(seconds=1)
        made.append(learn(timed, f"Use {name} for every {name}.").lesson)
    timed.outcome_record(score=1, domain="databases", lesson_id=made[0].id)
    gone = []
    for name in names[10:]:
        clock.move(seconds=1)
        gone += learn(timed, f"Use {name} for every {name}.").archived
    assert gone == [made[1].id, made[2].id]
    assert len(rules(timed)) == 10
    assert rules(timed)[0] == made[0].rule
    timed.archive_restore(id=made[1].id)
    assert made[1].rule in rules(timed)


def test_lessons_of_a_project_come_before_the_general_ones(timed: holdfast.Holdfast) -> None:
    general = learn(timed, "Write the test before the code that it tests.").lesson.rule
    learn(timed, "Write the test before the code that it tests.")
    team = learn(timed, "Ask the reviewer of the day for consent.", namespace="shop").lesson.rule
    own = learn(timed, "Deploy the till before the shelves.", namespace="shop/till").lesson.rule
    learn(timed, "Never deploy on a Friday.", namespace="bank")
    assert rules(timed, namespace="shop/till") == [own, team, general]
    assert rules(timed, namespace="global") == [general]
    assert len(rules(timed)) == 4
    assert len(rules(timed, limit=2)) == 2


def test_what_is_said_three_times_is_proposed_and_learned_with_its_evidence(timed: holdfast.Holdfast) -> None:
    said = [
        "The build failed because the cache of the compiler was stale.",
        "Build failed because the compiler's cache was stale.",
        "The build failed, because the cache of the compiler was stale.",
    ]
    told = [timed.outcome_record(score=-1, domain="build", what=what) for what in said]
    assert [one.proposes is UNSET for one in told] == [True, True, False]
    assert timed.outcome_record(score=-1, domain="build", what="The network was down.").proposes is UNSET
    (proposal,) = timed.lesson_suggest().proposals
    assert (proposal.score, sorted(proposal.outcomes)) == (-1, sorted(one.id for one in told))
    lesson = learn(timed, "Clear the compiler's cache before a release.", "build", outcomes=proposal.outcomes).lesson
    assert (lesson.positive, round(lesson.confidence, 2)) == (3, 0.8)
    assert timed.lesson_suggest().count == 0
    assert {one.lesson_id for one in timed.outcome_list(domain="build").outcomes} == {lesson.id, UNSET}


def test_outcomes_are_listed_the_last_one_first_and_by_place(timed: holdfast.Holdfast, clock: Any) -> None:
    for number, namespace in enumerate(("global", "shop", "shop")):
        clock.move(seconds=1)
        timed.outcome_record(score=1, domain="d", what=f"number {number}", namespace=namespace)
    assert [one.what for one in timed.outcome_list().outcomes] == ["number 2", "number 1", "number 0"]
    assert [one.what for one in timed.outcome_list(namespace="shop", limit=1).outcomes] == ["number 2"]
    assert timed.outcome_list(since=clock.after(seconds=1)).count == 0


@pytest.mark.parametrize("score", [2, -2, "1", 0.5, None])
def test_a_score_is_one_of_three(timed: holdfast.Holdfast, score: Any) -> None:
    with pytest.raises(Invalid):
        timed.outcome_record(score=score, domain="d")
    assert timed.outcome_list().count == 0


def test_an_agent_sees_its_own_outcomes_and_reads_what_was_learned(
    timed: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    learn(timed)
    timed.outcome_record(score=1, domain="d", what="mine")
    other = seen_by("ai:else@here", right="write")
    assert other.outcome_list().count == 0
    assert rules(other) == [RULE]
    with pytest.raises(NotFound):
        other.outcome_record(score=1, domain="d", lesson_id="no-such-lesson")
    with pytest.raises(Forbidden):
        seen_by("ai:reader@here", right="read").outcome_record(score=1, domain="d")
