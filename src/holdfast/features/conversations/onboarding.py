"""Onboarding steps of a person: each hint is given once, when it makes sense.

Progress is read when a context is built, and written when a step is done.
"""

from typing import Annotated, Literal, NamedTuple

from msgspec import Struct

from holdfast.features.people import facts
from holdfast.features.people.model import validate_name
from holdfast.features.people.resolve_names import list_names
from holdfast.features.tasks.service import list_open_tasks
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict
from holdfast.kernel.records.fields import Agent, ExportAs, ShortText, Timestamp
from holdfast.kernel.storage.local_table import Export, LocalTable, Owner
from holdfast.kernel.storage.port import Session

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


ONBOARDING = LocalTable(
    OnboardingStep, "onboarding", ("principal", "step"), owner=Owner("at"), export=Export("onboarding")
)


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


def find_next_step(ctx: Context, principal: str) -> Step | None:
    """Return the next onboarding step of a person, or None. Reads only."""
    has_plans = bool(list_open_tasks(ctx, principal, 1))
    state = OnboardingState(len(facts.list_facts(ctx, principal)), has_plans)
    with ctx.reading() as session:
        return next_step(_last_step(session, list_names(session, principal)), state)


def _last_step(session: Session, names: tuple[str, ...]) -> int | None:
    """Return the last step done, under any of the names."""
    return max((one.step for one in ONBOARDING.get_many(session, names, "principal")), default=None)


def mark_step_done(ctx: Context, principal: str, step: Step) -> bool:
    """Mark a step as done, in order; return False if it already was."""
    number = STEPS.index(step)
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        names = list_names(session, validate_name(principal))
        last = _last_step(session, names)
        if last is not None and number <= last:
            return False
        if number > (0 if last is None else last + 1):
            raise Conflict(f"step: {STEPS[0 if last is None else last + 1]} comes before {step}")
        done = OnboardingStep(principal=names[0], step=number, at=ctx.now(), agent=ctx.caller.agent)
        ONBOARDING.add(session, done)
    return True
