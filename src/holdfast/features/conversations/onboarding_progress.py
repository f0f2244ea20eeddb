"""Onboarding progress per person: read when a context is built, written when a step is done."""

from holdfast.features.conversations.onboarding import STEPS, OnboardingState, OnboardingStep, Step, next_step
from holdfast.features.conversations.store import ONBOARDING
from holdfast.features.people import facts
from holdfast.features.people.model import validate_name
from holdfast.features.people.resolve_names import list_names
from holdfast.features.tasks.service import list_open_tasks
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict
from holdfast.kernel.storage.port import Session


def find_next_step(ctx: Context, principal: str) -> Step | None:
    """Return the next onboarding step of a person, or None. Reads only."""
    state = OnboardingState(len(facts.list_facts(ctx, principal)), _has_plans(ctx, principal))
    with ctx.reading() as session:
        return next_step(_last_step(session, list_names(session, principal)), state)


def _has_plans(ctx: Context, principal: str) -> bool:
    return bool(list_open_tasks(ctx, principal, 1))


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
