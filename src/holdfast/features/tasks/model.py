"""What is to be done at a time, and what becomes of each try. Pure: who asks says what time it is."""

import re
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.tasks.schedule import Misfire, Schedule, next_due, rule_of, zone_of
from holdfast.kernel.timestamps import SECOND

State = Literal["pending", "running", "done", "failed", "cancelled"]
Handler = Literal["none", "webhook", "command", "python", "job"]
Status = Literal["completed", "failed", "lost", "skipped"]

FIRST_PAUSE = 30 * SECOND
"""Before the second try; each further pause is twice as long, and all are spread at random."""
LONGEST_PAUSE = 6 * 3600 * SECOND
LONGEST_TEXT = 65_536
"""Characters of a result or an error that are kept."""

_WORD = re.compile(r"[^\W_]+")
SHORTEST_WORD = 3
LIKE_WITHIN = 1800 * SECOND
"""How near to each other two tasks are due that may be the same."""


class Task(Struct, frozen=True):
    """One thing to do, once or again and again. Moments are microseconds."""

    id: str
    principal: str
    """Whose task it is."""
    agent: str
    """Who made it."""
    namespace: str
    channel: str
    reply_to: str
    title: str
    kind: str
    handler: Handler
    target: str
    """What the handler is given: an address, a command, a name."""
    payload: dict[str, Any]
    zone: str
    first_at: int
    repeat: str | None
    misfire: Misfire
    due_at: int
    """The time that it is for; a later try does not move it."""
    ready_at: int | None
    """From when on it can be claimed: it is due, or to be tried again, or its lease is over. None: never again."""
    state: State
    attempts: int
    """Claims of this time so far."""
    most_attempts: int
    timeout: int
    """Seconds that one try may take."""
    owner: str | None
    token: int
    """Counts claims: who settles one with an older token is too late."""
    claimed_at: int | None
    cancel_asked: bool
    last_error: str | None
    unique_key: str | None
    created_at: int
    updated_at: int

    @property
    def schedule(self) -> Schedule:
        return Schedule(rule_of(self.repeat), zone_of(self.zone), self.first_at)


class Run(Struct, frozen=True):
    """One try."""

    id: str
    task: str
    due_at: int
    attempt: int
    owner: str
    token: int
    started_at: int
    finished_at: int
    status: Status
    final: bool
    """Whether it settled the time that it was for: one does."""
    result: str | None = None
    error: str | None = None
    tokens: int | None = None


class Claimant(NamedTuple):
    """Who takes tasks, and for how long nobody else does."""

    owner: str
    now: int
    seconds: int


def claimed(task: Task, by: Claimant) -> Task:
    return replace(
        task,
        state="running",
        owner=by.owner,
        token=task.token + 1,
        claimed_at=by.now,
        attempts=task.attempts + 1,
        ready_at=by.now + by.seconds * SECOND,
        updated_at=by.now,
    )


def settled(task: Task, now: int, *, error: str | None = None) -> Task:
    """A task after the time that it was for is over, well or not: due again, or at its end."""
    free = replace(task, owner=None, claimed_at=None, attempts=0, last_error=error, updated_at=now, cancel_asked=False)
    if task.cancel_asked:
        return replace(free, state="cancelled", ready_at=None)
    following = next_due(task.schedule, task.due_at, now, task.misfire)
    if following is not None:
        return replace(free, state="pending", due_at=following, ready_at=following)
    return replace(free, state="done" if error is None else "failed", ready_at=None, attempts=task.attempts)


def unclaimed(task: dict[str, Any]) -> dict[str, Any]:
    """A task by its columns as it is where nobody has it: to be tried again, or given up if that was asked for."""
    if task["state"] != "running":
        return task
    if task["cancel_asked"]:
        return {**task, "state": "cancelled", "ready_at": None}
    return {**task, "state": "pending", "ready_at": task["due_at"]}


def failed(task: Task, now: int, error: str, chance: float) -> Task:
    """A task after a try that failed: to be tried again, or given up for this time."""
    if task.cancel_asked or task.attempts >= task.most_attempts:
        return settled(task, now, error=error)
    again = now + pause(task.attempts, chance)
    return replace(task, state="pending", owner=None, claimed_at=None, ready_at=again, last_error=error, updated_at=now)


def pause(attempts: int, chance: float) -> int:
    """How long to wait after so many tries; `chance` from 0 to 1 spreads it from a half to the whole."""
    whole = min(FIRST_PAUSE << min(attempts - 1, 20), LONGEST_PAUSE)
    return int(whole * (0.5 + chance / 2))


def alike(a: Task, title: str, due_at: int) -> bool:
    """Whether another may be the same: half of the words of the shorter are in the longer, at nearly the same time."""
    if abs(a.due_at - due_at) > LIKE_WITHIN:
        return False
    one, other = _words(a.title), _words(title)
    few, many = sorted((one, other), key=len)
    return len(few) >= SHORTEST_WORD and 2 * len(few & many) >= len(few)


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.lower()) if len(word) >= SHORTEST_WORD}
