"""Operations: add, list, change and claim tasks, and list their runs."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.tasks import service as tasks
from holdfast.features.tasks.model import Task, TaskRun
from holdfast.features.tasks.store import TaskFilter
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Actor, Limit, Namespace, Skip
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset
from holdfast.kernel.timestamps import TIME, TimeText, format_time

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


class TaskView(Struct, frozen=True, kw_only=True):
    id: str
    title: str
    state: State
    due_at: TimeText
    """Scheduled time of the current occurrence."""
    principal: str
    agent_id: str
    namespace: str
    kind: str
    zone: str
    misfire: Misfire
    attempts: int
    most_attempts: int
    timeout: int
    handler: Handler
    created_at: TimeText
    updated_at: TimeText
    repeat: str | UnsetType = UNSET
    ready_at: TimeText | UnsetType = UNSET
    """Earliest time of the next claim, if not `due_at`."""
    target: str | UnsetType = UNSET
    payload: dict[str, Any] | UnsetType = UNSET
    channel: str | UnsetType = UNSET
    reply_to: str | UnsetType = UNSET
    owner: str | UnsetType = UNSET
    """Current lease holder."""
    lease_until: TimeText | UnsetType = UNSET
    cancel_asked: bool | UnsetType = UNSET
    last_error: str | UnsetType = UNSET
    unique_key: str | UnsetType = UNSET


def task_view(task: "Task") -> TaskView:
    running = task.state == "running"
    return TaskView(
        id=task.id,
        title=task.title,
        state=task.state,
        due_at=str(format_time(task.due_at)),
        principal=task.principal,
        agent_id=task.agent,
        namespace=task.namespace,
        kind=task.kind,
        zone=task.zone,
        misfire=task.misfire,
        attempts=task.attempts,
        most_attempts=task.most_attempts,
        timeout=task.timeout,
        handler=task.handler,
        created_at=str(format_time(task.created_at)),
        updated_at=str(format_time(task.updated_at)),
        repeat=value_or_unset(task.repeat),
        ready_at=UNSET if running or task.ready_at == task.due_at else format_time(task.ready_at),
        target=task.target or UNSET,
        payload=task.payload or UNSET,
        channel=task.channel or UNSET,
        reply_to=task.reply_to or UNSET,
        owner=value_or_unset(task.owner),
        lease_until=format_time(task.ready_at) if running else UNSET,
        cancel_asked=task.cancel_asked or UNSET,
        last_error=value_or_unset(task.last_error),
        unique_key=value_or_unset(task.unique_key),
    )


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
    due_at: TimeText


class TaskAddResult(Struct, frozen=True, kw_only=True):
    task: TaskView
    created: bool
    """False: an identical task already existed and is returned unchanged."""
    similar: list[SimilarTask]
    """Possible duplicates, for information only."""


@operation(
    Effect.WRITE,
    "POST /api/v1/tasks",
    cli=("task", "add"),
    status=201,
    human="holdfast.features.tasks.render:render_added_task",
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
    similar = [SimilarTask(id=one.id, title=one.title, due_at=str(format_time(one.due_at))) for one in result.similar]
    return TaskAddResult(task=task_view(result.task), created=result.created, similar=similar)


class TaskList(Request, frozen=True):
    state: Annotated[list[State], Meta(max_length=5, description="States to include [default: pending, running].")] = []
    due: Annotated[bool, Meta(description="Only tasks that can be claimed now.")] = False
    principal: Annotated[list[str], Meta(max_length=20, description="Only tasks of these principals.")] = []
    limit: Limit = 50
    offset: Skip = 0


class TaskPage(Struct, frozen=True, kw_only=True):
    tasks: list[TaskView]
    count: int
    total: int


@operation(
    Effect.READ,
    "GET /api/v1/tasks",
    cli=("task", "list"),
    human="holdfast.features.tasks.render:render_tasks",
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
    return TaskPage(tasks=[task_view(task) for task in found], count=len(found), total=total)


PrincipalFilter = Annotated[list[str], Meta(max_length=20, description="Only tasks of these principals.")]


class TaskShow(Request, frozen=True):
    id: TaskId
    principal: PrincipalFilter = []


@operation(
    Effect.READ,
    "GET /api/v1/tasks/{id}",
    cli=("task", "show"),
    human="holdfast.features.tasks.render:render_task",
    examples=(
        Example({"id": "no-such-task"}, error="NOT_FOUND"),
        Example({"id": "short"}, error="VALIDATION_FAILED"),
        Example({"id": "7d20e4b1"}, prepared=True),
    ),
)
def task_show(ctx: Context, request: TaskShow) -> TaskView:
    """Show a task."""
    return task_view(tasks.get_task(ctx, request.id, request.principal))


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
    human="holdfast.features.tasks.render:render_task",
    examples=(
        Example({"id": "no-such-task", "title": "Pay"}, error="NOT_FOUND"),
        Example({"id": "no-such-task"}, error="VALIDATION_FAILED"),
        Example({"id": "7d20e4b1", "title": "Water all plants"}, prepared=True),
        Example({"id": "7d20e4b1", "due_at": "2030-02-01T09:00"}, prepared=True),
    ),
)
def task_update(ctx: Context, request: TaskUpdate) -> TaskView:
    """Change a pending task: title, due time, schedule or payload."""
    fields = ("title", "due_at", "repeat", "zone", "misfire", "kind", "reply_to", "payload", "timeout")
    changes = {name: value for name in fields if (value := getattr(request, name)) is not None}
    if request.max_attempts is not None:
        changes["most_attempts"] = request.max_attempts
    return task_view(tasks.update_task(ctx, request.id, request.principal, changes))


class TaskDefer(Request, frozen=True):
    id: TaskId
    until: Annotated[When, Meta(extra={"argument": True})]
    principal: PrincipalFilter = []
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/tasks/{id}/defer",
    cli=("task", "defer"),
    human="holdfast.features.tasks.render:render_task",
    examples=(
        Example({"id": "no-such-task", "until": "2030-01-31"}, error="NOT_FOUND"),
        Example({"id": "7d20e4b1", "until": "2030-02-01T09:00"}, prepared=True),
    ),
)
def task_defer(ctx: Context, request: TaskDefer) -> TaskView:
    """Postpone the next occurrence of a task; later ones keep their times."""
    return task_view(tasks.defer_task(ctx, request.id, request.principal, request.until))


class TaskChange(Request, frozen=True):
    id: TaskId
    principal: PrincipalFilter = []
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/tasks/{id}/cancel",
    cli=("task", "cancel"),
    human="holdfast.features.tasks.render:render_task",
    examples=(Example({"id": "no-such-task"}, error="NOT_FOUND"), Example({"id": "7d20e4b1"}, prepared=True)),
)
def task_cancel(ctx: Context, request: TaskChange) -> TaskView:
    """Cancel a task; a running attempt is asked to stop."""
    return task_view(tasks.cancel_task(ctx, request.id, request.principal))


@operation(
    Effect.WRITE,
    "POST /api/v1/tasks/{id}/retry",
    cli=("task", "retry"),
    human="holdfast.features.tasks.render:render_task",
    examples=(Example({"id": "no-such-task"}, error="NOT_FOUND"), Example({"id": "f4830a1d"}, prepared=True)),
)
def task_retry(ctx: Context, request: TaskChange) -> TaskView:
    """Retry a failed task immediately."""
    return task_view(tasks.retry_task(ctx, request.id, request.principal))


class TaskRunView(Struct, frozen=True, kw_only=True):
    id: str
    due_at: TimeText
    attempt: int
    owner: str
    started_at: TimeText
    finished_at: TimeText
    status: Literal["completed", "failed", "lost", "skipped"]
    final: bool
    """Whether this attempt ended its occurrence."""
    result: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    tokens_used: int | UnsetType = UNSET


class TaskRuns(Request, frozen=True):
    id: TaskId
    limit: Limit = 20
    principal: PrincipalFilter = []


class TaskRunPage(Struct, frozen=True, kw_only=True):
    task_id: str
    runs: list[TaskRunView]
    count: int


def task_run_view(run: "TaskRun") -> TaskRunView:
    return TaskRunView(
        id=run.id,
        due_at=str(format_time(run.due_at)),
        attempt=run.attempt,
        owner=run.owner,
        started_at=str(format_time(run.started_at)),
        finished_at=str(format_time(run.finished_at)),
        status=run.status,
        final=run.final,
        result=value_or_unset(run.result),
        error=value_or_unset(run.error),
        tokens_used=value_or_unset(run.tokens),
    )


@operation(
    Effect.READ,
    "GET /api/v1/tasks/{id}/runs",
    cli=("task", "attempts"),
    aliases=("task runs",),
    human="holdfast.features.tasks.render:render_task_runs",
    examples=(Example({"id": "no-such-task"}, error="NOT_FOUND"), Example({"id": "f4830a1d"}, prepared=True)),
)
def task_runs(ctx: Context, request: TaskRuns) -> TaskRunPage:
    """List the attempts of a task, newest first."""
    task, found = tasks.list_attempts(ctx, request.id, request.principal, request.limit)
    return TaskRunPage(task_id=task.id, runs=[task_run_view(run) for run in found], count=len(found))


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
    task: TaskView


class ClaimResult(Struct, frozen=True, kw_only=True):
    claimed: list[ClaimView]
    count: int


@operation(
    Effect.WRITE,
    "POST /api/v1/tasks/claim",
    cli=("task", "claim"),
    human="holdfast.features.tasks.render:render_claims",
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
    return ClaimResult(claimed=[ClaimView(token=one.token, task=task_view(one)) for one in claims], count=len(claims))
