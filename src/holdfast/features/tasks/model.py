"""Tasks, attempts and their pure state transitions. The caller passes the current time."""

import re
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from holdfast.features.tasks.schedule import Misfire, Schedule, next_due, parse_rule, parse_zone
from holdfast.kernel.storage.columns import Agent, Count, LongText, Mark, OptionalShortText, ShortText, Text, Timestamp
from holdfast.kernel.timestamps import SECOND

State = Literal["pending", "running", "done", "failed", "cancelled"]
Handler = Literal["none", "webhook", "command", "python", "job"]
Status = Literal["completed", "failed", "lost", "skipped"]

MIN_RETRY_DELAY = 30 * SECOND
"""Delay before the second attempt. Each further delay doubles, with random jitter."""
MAX_RETRY_DELAY = 6 * 3600 * SECOND
MAX_TEXT_CHARS = 65_536
"""Stored characters of a result or an error."""

MIN_PREFIX_CHARS = 6
"""Characters of an id prefix that identify a task."""

_WORD = re.compile(r"[^\W_]+")
MIN_WORD_CHARS = 3
SIMILAR_WINDOW = 1800 * SECOND
"""Maximum distance between the due times of two similar tasks."""


class Task(Struct, frozen=True, kw_only=True):
    """Work that is due once or repeatedly."""

    id: Annotated[Text, Meta(min_length=MIN_PREFIX_CHARS)]
    principal: Annotated[ShortText, Mark.FIXED]
    """Owner of the task."""
    agent: Annotated[Agent, Mark.FIXED]
    """Agent that created it."""
    namespace: Annotated[str, Mark.FIXED]
    channel: Annotated[OptionalShortText, Mark.FIXED] = ""
    reply_to: OptionalShortText = ""
    title: Annotated[LongText, Meta(min_length=1)]
    kind: ShortText = "reminder"
    handler: Annotated[Handler, Mark.FIXED] = "none"
    target: Annotated[LongText, Mark.FIXED] = ""
    """Argument of the handler: a URL, a command or a name."""
    payload: dict[str, Any] = {}
    zone: ShortText = "UTC"
    first_at: Timestamp
    repeat: ShortText | None = None
    misfire: Misfire = "once"
    due_at: Timestamp
    """Scheduled time of the current occurrence. Retries do not change it."""
    ready_at: Timestamp | None = None
    """Earliest time of the next claim: due time, retry time or end of the lease. None: never again."""
    state: State
    attempts: Count = 0
    """Claims of the current occurrence so far."""
    most_attempts: Annotated[int, Meta(ge=1, le=100)] = 5
    timeout: Annotated[int, Meta(ge=1, le=86_400)] = 300
    """Seconds allowed for one attempt."""
    owner: Annotated[str | None, Mark.LOCAL] = None
    token: Count = 0
    """Fencing token: each claim increments it, and older tokens are rejected."""
    claimed_at: Annotated[int | None, Mark.LOCAL] = None
    cancel_asked: Annotated[bool, Mark.LOCAL] = False
    last_error: LongText | None = None
    unique_key: Annotated[ShortText | None, Mark.FIXED] = None
    created_at: Annotated[Timestamp, Mark.FIXED]
    updated_at: Timestamp

    @property
    def schedule(self) -> Schedule:
        return Schedule(parse_rule(self.repeat), parse_zone(self.zone), self.first_at)


class TaskRun(Struct, frozen=True, kw_only=True):
    """One attempt."""

    id: Text
    task: Text
    due_at: Timestamp
    attempt: Count
    owner: OptionalShortText = ""
    token: Count = 0
    started_at: Timestamp
    finished_at: Timestamp
    status: Status
    final: bool
    """Whether this attempt ended its occurrence. Exactly one does."""
    result: LongText | None = None
    error: LongText | None = None
    tokens: Count | None = None


def end_occurrence(task: Task, now: int, *, error: str | None = None) -> Task:
    """End the current occurrence: schedule the next one, or finish the task as done or failed."""
    free = replace(task, owner=None, claimed_at=None, attempts=0, last_error=error, updated_at=now, cancel_asked=False)
    if task.cancel_asked:
        return replace(free, state="cancelled", ready_at=None)
    following = next_due(task.schedule, task.due_at, now, task.misfire)
    if following is not None:
        return replace(free, state="pending", due_at=following, ready_at=following)
    return replace(free, state="done" if error is None else "failed", ready_at=None, attempts=task.attempts)


def unclaim_task(task: Task) -> Task:
    """Remove the lease from a task: pending again, or cancelled if that was requested."""
    free = replace(task, owner=None, claimed_at=None, cancel_asked=False)
    if task.state != "running":
        return free
    if task.cancel_asked:
        return replace(free, state="cancelled", ready_at=None)
    return replace(free, state="pending", ready_at=task.due_at)


def fail_attempt(task: Task, now: int, error: str, chance: float) -> Task:
    """Record a failed attempt: schedule a retry, or end the occurrence after the last one."""
    if task.cancel_asked or task.attempts >= task.most_attempts:
        return end_occurrence(task, now, error=error)
    again = now + compute_retry_delay(task.attempts, chance)
    return replace(task, state="pending", owner=None, claimed_at=None, ready_at=again, last_error=error, updated_at=now)


def compute_retry_delay(attempts: int, chance: float) -> int:
    """Delay before the next attempt. `chance` (0 to 1) scales it from half to full length."""
    whole = min(MIN_RETRY_DELAY << min(attempts - 1, 20), MAX_RETRY_DELAY)
    return int(whole * (0.5 + chance / 2))


def is_similar(a: Task, title: str, due_at: int) -> bool:
    """Whether two tasks are near in time and share half of the words of the shorter title."""
    if abs(a.due_at - due_at) > SIMILAR_WINDOW:
        return False
    one, other = _words(a.title), _words(title)
    few, many = sorted((one, other), key=len)
    return len(few) >= MIN_WORD_CHARS and 2 * len(few & many) >= len(few)


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.lower()) if len(word) >= MIN_WORD_CHARS}
