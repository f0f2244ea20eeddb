"""Onboarding progress per person: read when a context is built, written when a step is done."""

from holdfast.features.conversations.onboarding import STEPS, Known, Step, next_step
from holdfast.features.people import facts
from holdfast.features.people.principal import admit_name
from holdfast.features.people.store import known_as
from holdfast.features.tasks import store as tasks
from holdfast.features.tasks.store import Which
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict
from holdfast.kernel.storage.port import Session


def coming(hold: Hold, principal: str) -> Step | None:
    """Return the next onboarding step of a person, or None. Reads only."""
    known = Known(len(facts.known(hold, principal)), _plans(hold, principal))
    with hold.reading() as session:
        return next_step(_told(session, known_as(session, principal)), known)


def _plans(hold: Hold, principal: str) -> bool:
    with hold.reading() as session:
        return bool(tasks.select(session, hold.caller, Which((principal,), ("pending", "running")), 1))


def _told(session: Session, names: tuple[str, ...]) -> int | None:
    """Return the last step done, under any of the names."""
    row = session.row("onboarding_last", names=list(names))
    return None if row is None else row[0]


def tell(hold: Hold, principal: str, step: Step) -> bool:
    """Mark a step as done, in order; return False if it already was."""
    number = STEPS.index(step)
    with hold.store.writing(hold.progress.commit) as session:
        names = known_as(session, admit_name(principal))
        last = _told(session, names)
        if last is not None and number <= last:
            return False
        if number > (0 if last is None else last + 1):
            raise Conflict(f"step: {STEPS[0 if last is None else last + 1]} comes before {step}")
        session.do("onboarding_tell", principal=names[0], step=number, at=hold.now(), agent=hold.caller.agent)
    return True
