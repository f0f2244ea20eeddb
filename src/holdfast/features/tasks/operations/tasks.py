"""Operations: add, list, change and claim tasks, and list their runs."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from holdfast.features.tasks import service as tasks
from holdfast.features.tasks.model import Task, TaskRun
from holdfast.features.tasks.store import TaskFilter
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Actor, Limit, Namespace, Skip
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import TIME, Time

State = Literal["pending", "running", "done", "failed", "cancelled"]
OPEN: tuple[State, ...] = ("pending", "running")
Handler = Literal["none", "webhook", "command", "python", "job"]
Misfire = Literal["skip", "once", "all"]
Title = Annotated[str, Meta(min_length=1, max_length=4096, description="What to do.", extra={"argument": True})]
When = Annotated[
    str,
    Meta(min_length=1, max_length=40, description="RFC 3339 time; without an offset, local time in the zone."),
    TIME,
]
Zone = Annotated[str, Meta(min_length=1, max_length=64, description="Time zone, such as Europe/Berlin.")]
Repeat = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        description="daily, weekdays, weekly, monthly, yearly, `every 90 minutes`, a five-field cron rule, or FREQ=...",
    ),
]
MisfirePolicy = Annotated[Misfire, Meta(description="Missed runs: skip them, run once, or run all.")]
TaskId = Annotated[
    str,
    Meta(
        min_length=6,
        max_length=64,
        description="Task id, or a unique prefix of at least 6 characters.",
        extra={"argument": True},
    ),
]
WholeId = Annotated[
    str, Meta(min_length=6, max_length=64, description="Full task id, as returned by claim.", extra={"argument": True})
]
Principal = Annotated[str, Meta(min_length=1, max_length=128, description="Owner of the task [default: the agent].")]
Token = Annotated[int, Meta(ge=1, le=(1 << 53) - 1, description="Fencing token returned by claim.")]
Seconds = Annotated[int, Meta(ge=1, le=86_400, description="Length of the lease in seconds.")]
Word = Annotated[str, Meta(max_length=256)]
Payload = Annotated[dict[str, Any], Meta(description="JSON object passed to the handler.")]
Attempts = Annotated[int, Meta(ge=1, le=100, description="Maximum attempts per occurrence.")]
Timeout = Annotated[int, Meta(ge=1, le=86_400, description="Seconds that a worker allows for one attempt.")]


class TaskAdd(Request, frozen=True):
    title: Title
    due_at: When
    repeat: Repeat | None = None
    zone: Zone = "UTC"
    misfire: MisfirePolicy = "once"
    principal: Principal | None = None
    namespace: Namespace | None = None
    kind: Annotated[str, Meta(min_length=1, max_length=64, description="reminder, action, or a custom kind.")] = (
        "reminder"
    )
    channel: Annotated[Word, Meta(description="Channel of the request.")] = ""
    reply_to: Annotated[Word, Meta(description="Where to send the result.")] = ""
    payload: Payload = {}
    handler: Annotated[
        Handler, Meta(description="none: any agent claims it; otherwise a worker runs it (needs an admin key).")
    ] = "none"
    target: Annotated[str, Meta(max_length=4096, description="URL, command, handler name or job of the handler.")] = ""
    max_attempts: Attempts = 5
    timeout: Timeout = 300
    unique_key: (
        Annotated[str, Meta(min_length=1, max_length=256, description="Reuse the existing task with this key.")] | None
    ) = None
    agent_id: Actor | None = None


class SimilarTask(Struct, frozen=True, kw_only=True):
    id: str
    title: str
    due_at: Time


class TaskAddResult(Struct, frozen=True, kw_only=True):
    task: Task
    created: bool
    """False: an identical task already existed and is returned unchanged."""
    similar: list[SimilarTask]
    """Possible duplicates, for information only."""


@operation(
    Effect.WRITE,
    "POST /api/v1/tasks",
    cli=("task", "add"),
    status=201,
    columns=("id", "state", "title"),
    examples=(
        Example({"title": "Pay the rent", "due_at": "2030-01-31T09:00", "zone": "Europe/Berlin", "repeat": "monthly"}),
        Example({"title": "Pay the rent", "due_at": "tomorrow at nine"}, error="VALIDATION_FAILED"),
        Example({"title": "Pay", "due_at": "2030-01-31", "repeat": "0 0 31 2 *"}, error="VALIDATION_FAILED"),
        Example({"title": "Pay the rent", "due_at": "2030-01-31T09:00", "zone": "Europe/Berlin"}, prepared=True),
        Example({"title": "Stand-up", "due_at": "2030-01-31T09:00", "repeat": "weekdays"}, prepared=True),
    ),
)
def task_add(ctx: Context, request: TaskAdd) -> TaskAddResult:
    """Add a task: once or on a schedule, in a time zone.

    Adding an identical task again returns the existing one. Similar tasks are listed, never dropped.
    """
    result = tasks.add_task(
        ctx,
        tasks.TaskDraft(
            title=request.title,
            due_at=request.due_at,
            principal=request.principal,
            namespace=request.namespace,
            channel=request.channel,
            reply_to=request.reply_to,
            kind=request.kind,
            handler=request.handler,
            target=request.target,
            payload=request.payload,
            zone=request.zone,
            repeat=request.repeat,
            misfire=request.misfire,
            most_attempts=request.max_attempts,
            timeout=request.timeout,
            unique_key=request.unique_key,
        ),
    )
    similar = [SimilarTask(id=one.id, title=one.title, due_at=one.due_at) for one in result.similar]
    return TaskAddResult(task=result.task, created=result.created, similar=similar)


class TaskList(Request, frozen=True):
    state: Annotated[list[State], Meta(max_length=5, description="States to include [default: pending, running].")] = []
    due: Annotated[bool, Meta(description="Only tasks that can be claimed now.")] = False
    principal: Annotated[list[str], Meta(max_length=20, description="Only tasks of these principals.")] = []
    limit: Limit = 50
    offset: Skip = 0


class TaskPage(Struct, frozen=True, kw_only=True):
    tasks: list[Task]
    count: int
    total: int


@operation(
    Effect.READ,
    "GET /api/v1/tasks",
    cli=("task", "list"),
    columns=("id", "due_at", "state", "repeat", "title"),
    examples=(
        Example({}),
        Example({"state": ["failed"], "due": True}),
        Example({"limit": 0}, error="VALIDATION_FAILED"),
        Example({"due": True}, prepared=True),
    ),
)
def task_list(ctx: Context, request: TaskList) -> TaskPage:
    """List your tasks by due time; an admin sees all."""
    which = TaskFilter(
        principals=tuple(request.principal), states=tuple(request.state) or OPEN, due=ctx.now() if request.due else None
    )
    found, total = tasks.list_tasks(ctx, which, request.limit, request.offset)
    return TaskPage(tasks=found, count=len(found), total=total)


PrincipalFilter = Annotated[list[str], Meta(max_length=20, description="Only tasks of these principals.")]


class TaskShow(Request, frozen=True):
    id: TaskId
    principal: PrincipalFilter = []


@operation(
    Effect.READ,
    "GET /api/v1/tasks/{id}",
    cli=("task", "show"),
    columns=("id", "state", "title"),
    examples=(
        Example({"id": "no-such-task"}, error="NOT_FOUND"),
        Example({"id": "short"}, error="VALIDATION_FAILED"),
        Example({"id": "7d20e4b1"}, prepared=True),
    ),
)
def task_show(ctx: Context, request: TaskShow) -> Task:
    """Show a task."""
    return tasks.get_task(ctx, request.id, request.principal)


class TaskUpdate(Request, frozen=True):
    id: TaskId
    title: Annotated[str, Meta(min_length=1, max_length=4096, description="New title.")] | None = None
    due_at: When | None = None
    repeat: Repeat | None = None
    zone: Zone | None = None
    misfire: MisfirePolicy | None = None
    kind: Annotated[str, Meta(min_length=1, max_length=64, description="New kind.")] | None = None
    reply_to: Annotated[Word, Meta(description="New address for the result.")] | None = None
    payload: Payload | None = None
    max_attempts: Attempts | None = None
    timeout: Timeout | None = None
    principal: PrincipalFilter = []
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "PATCH /api/v1/tasks/{id}",
    cli=("task", "update"),
    columns=("id", "state", "title"),
    examples=(
        Example({"id": "no-such-task", "title": "Pay"}, error="NOT_FOUND"),
        Example({"id": "no-such-task"}, error="VALIDATION_FAILED"),
        Example({"id": "7d20e4b1", "title": "Water all plants"}, prepared=True),
        Example({"id": "7d20e4b1", "due_at": "2030-02-01T09:00"}, prepared=True),
    ),
)
def task_update(ctx: Context, request: TaskUpdate) -> Task:
    """Change a pending task: title, due time, schedule or payload."""
    fields = ("title", "due_at", "repeat", "zone", "misfire", "kind", "reply_to", "payload", "timeout")
    changes = {name: value for name in fields if (value := getattr(request, name)) is not None}
    if request.max_attempts is not None:
        changes["most_attempts"] = request.max_attempts
    return tasks.update_task(ctx, request.id, request.principal, changes)


class TaskDefer(Request, frozen=True):
    id: TaskId
    until: Annotated[When, Meta(extra={"argument": True})]
    principal: PrincipalFilter = []
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/tasks/{id}/defer",
    cli=("task", "defer"),
    columns=("id", "state", "title"),
    examples=(
        Example({"id": "no-such-task", "until": "2030-01-31"}, error="NOT_FOUND"),
        Example({"id": "7d20e4b1", "until": "2030-02-01T09:00"}, prepared=True),
    ),
)
def task_defer(ctx: Context, request: TaskDefer) -> Task:
    """Postpone the next occurrence of a task; later ones keep their times."""
    return tasks.defer_task(ctx, request.id, request.principal, request.until)


class TaskChange(Request, frozen=True):
    id: TaskId
    principal: PrincipalFilter = []
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/tasks/{id}/cancel",
    cli=("task", "cancel"),
    columns=("id", "state", "title"),
    examples=(Example({"id": "no-such-task"}, error="NOT_FOUND"), Example({"id": "7d20e4b1"}, prepared=True)),
)
def task_cancel(ctx: Context, request: TaskChange) -> Task:
    """Cancel a task; a running attempt is asked to stop."""
    return tasks.cancel_task(ctx, request.id, request.principal)


@operation(
    Effect.WRITE,
    "POST /api/v1/tasks/{id}/retry",
    cli=("task", "retry"),
    columns=("id", "state", "title"),
    examples=(Example({"id": "no-such-task"}, error="NOT_FOUND"), Example({"id": "f4830a1d"}, prepared=True)),
)
def task_retry(ctx: Context, request: TaskChange) -> Task:
    """Retry a failed task immediately."""
    return tasks.retry_task(ctx, request.id, request.principal)


class TaskRuns(Request, frozen=True):
    id: TaskId
    limit: Limit = 20
    principal: PrincipalFilter = []


class TaskRunPage(Struct, frozen=True, kw_only=True):
    task_id: str
    runs: list[TaskRun]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/tasks/{id}/runs",
    cli=("task", "attempts"),
    aliases=("task runs",),
    columns=("started_at", "status", "attempt", "owner", "result", "error"),
    examples=(Example({"id": "no-such-task"}, error="NOT_FOUND"), Example({"id": "f4830a1d"}, prepared=True)),
)
def task_runs(ctx: Context, request: TaskRuns) -> TaskRunPage:
    """List the attempts of a task, newest first."""
    task, found = tasks.list_attempts(ctx, request.id, request.principal, request.limit)
    return TaskRunPage(task_id=task.id, runs=found, count=len(found))


class TaskClaim(Request, frozen=True):
    owner: (
        Annotated[str, Meta(min_length=1, max_length=128, description="Owner of the lease [default: the agent].")]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of tasks.")] = 10
    seconds: Seconds = 300
    principal: Annotated[list[str], Meta(max_length=20, description="Only tasks of these principals.")] = []
    agent_id: Actor | None = None


class ClaimView(Struct, frozen=True, kw_only=True):
    token: int
    """Fencing token: heartbeat and finish need it."""
    task: Task


class ClaimResult(Struct, frozen=True, kw_only=True):
    claimed: list[ClaimView]
    count: int


@operation(
    Effect.WRITE,
    "POST /api/v1/tasks/claim",
    cli=("task", "claim"),
    columns=("task.id", "token", "task.lease_until", "task.title"),
    empty="No tasks due.",
    examples=(
        Example({"limit": 5}),
        Example({"seconds": 0}, error="VALIDATION_FAILED"),
        Example({}, prepared=True),
        Example({"limit": 1, "seconds": 600}, prepared=True),
    ),
)
def task_claim(ctx: Context, request: TaskClaim) -> ClaimResult:
    """Claim due tasks under a lease; each claim carries a fencing token.

    Each claim counts as an attempt. Tasks with a handler are left to workers.
    """
    which = TaskFilter(principals=tuple(request.principal), handlers=("none",))
    claims = tasks.claim_tasks(ctx, request.owner or ctx.caller.agent, request.limit, request.seconds, which)
    return ClaimResult(claimed=[ClaimView(token=one.token, task=one) for one in claims], count=len(claims))
