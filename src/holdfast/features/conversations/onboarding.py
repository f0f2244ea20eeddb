"""Onboarding steps: each hint is given once, when it makes sense."""

from typing import Annotated, Literal, NamedTuple

from msgspec import Struct

from holdfast.kernel.records.fields import Agent, ExportAs, ShortText, Timestamp

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
FACTS_NEEDED = {0: 1, 1: 3, 3: 5}
"""Facts needed to complete each stage."""
PLANS_STAGE = 2
"""The stage that is complete once a task is planned."""


class OnboardingStep(Struct, frozen=True, kw_only=True):
    """A step that was done with a person."""

    principal: ShortText
    step: Annotated[int, ExportAs(type=Step, format=STEPS.__getitem__, parse=lambda step, field: STEPS.index(step))]
    """Its number."""
    at: Timestamp
    agent: Agent


class OnboardingState(NamedTuple):
    """What is known about a person; decides the next step."""

    facts: int
    plans: bool


def next_stage(stage: int, state: OnboardingState) -> int:
    """Return the next stage: at most one further, and only if its condition is met."""
    if stage >= DONE:
        return DONE
    ready = state.plans if stage == PLANS_STAGE else state.facts >= FACTS_NEEDED.get(stage, 0)
    return stage + 1 if ready else stage


def next_step(last: int | None, state: OnboardingState) -> Step | None:
    """Return the step after the last one done, or None if there is none yet."""
    if last is None:
        return STEPS[0]
    following = next_stage(last, state)
    return STEPS[following] if last < following < DONE else None
