"""Onboarding steps: each hint is given once, when it makes sense."""

from typing import Literal, NamedTuple

Step = Literal["introduce", "help", "personality", "tasks", "projects"]
STEPS: tuple[Step, ...] = ("introduce", "help", "personality", "tasks", "projects")
DONE = len(STEPS)
HINTS: dict[Step, str] = {
    "introduce": "This is your first conversation with them: answer, and say in a sentence who you are.",
    "help": "You know something of them now. Mention once that /help shows what you can do.",
    "personality": "You know them a little. Mention once that /personality changes how you speak.",
    "tasks": "They have planned something. Mention once that /tasks shows what is due.",
    "projects": "You know them well. Mention once that /projects keeps things of one project together.",
}
FACTS = {0: 1, 1: 3, 3: 5}
"""Facts needed to complete each stage."""
PLANS = 2
"""The stage that is complete once a task is planned."""


class Known(NamedTuple):
    """What is known about a person; decides the next step."""

    facts: int
    plans: bool


def stage_after(stage: int, known: Known) -> int:
    """Return the next stage: at most one further, and only if its condition is met."""
    if stage >= DONE:
        return DONE
    ready = known.plans if stage == PLANS else known.facts >= FACTS.get(stage, 0)
    return stage + 1 if ready else stage


def next_step(told: int | None, known: Known) -> Step | None:
    """Return the step after the last one done, or None if there is none yet."""
    if told is None:
        return STEPS[0]
    following = stage_after(told, known)
    return STEPS[following] if told < following < DONE else None
