"""Onboarding steps come one at a time, when their condition is met."""

import pytest

from holdfast.features.conversations.onboarding import DONE, HINTS, STEPS, OnboardingState, next_stage, next_step


@pytest.mark.parametrize(
    ("stage", "facts", "plans", "then"),
    [
        (0, 1, False, 1),
        (0, 0, False, 0),
        (1, 3, False, 2),
        (1, 2, False, 1),
        (2, 3, True, 3),
        (2, 3, False, 2),
        (3, 5, True, 4),
        (3, 4, True, 3),
        (4, 5, True, 5),
        (5, 10, True, 5),
        (0, 10, True, 1),
    ],
)
def test_onboarding_stages_follow_each_other_without_skips(stage: int, facts: int, plans: bool, then: int) -> None:
    assert next_stage(stage, OnboardingState(facts, plans)) == then


def test_the_introduction_comes_first_and_nothing_follows_the_last_step() -> None:
    assert next_step(None, OnboardingState(10, plans=True)) == "introduce"
    assert [next_step(told, OnboardingState(10, plans=True)) for told in range(DONE)] == [*STEPS[1:], None]
    assert next_step(0, OnboardingState(0, plans=False)) is None


def test_a_hint_suggests_what_to_ask_for() -> None:
    assert "first conversation" in HINTS["introduce"]
    assert all(f"/{step}" in HINTS[step] for step in STEPS[1:])
