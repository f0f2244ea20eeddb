"""Operations: extend the lease of a claimed task, finish it."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.features.tasks import service as tasks
from holdfast.features.tasks.model import Task, TaskRun
from holdfast.features.tasks.operations.tasks import Seconds, Token, WholeId
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Actor
from holdfast.kernel.registry.operation import Effect, Example, Request, operation


class TaskHeartbeat(Request, frozen=True):
    id: WholeId
    token: Token
    seconds: Seconds = 300
    agent_id: Actor | None = None


class HeartbeatResult(Struct, frozen=True, kw_only=True):
    id: str
    stop: bool
    """Whether the task was cancelled: stop, and finish it with an error."""


@operation(
    Effect.WRITE,
    "POST /api/v1/tasks/{id}/heartbeat",
    cli=("task", "heartbeat"),
    examples=(
        Example({"id": "no-such-task", "token": 1}, error="NOT_FOUND"),
        Example({"id": "no-such-task", "token": 0}, error="VALIDATION_FAILED"),
        Example({"id": "2c9f58e3", "token": 1}, prepared=True),
    ),
)
def task_heartbeat(ctx: Context, request: TaskHeartbeat) -> HeartbeatResult:
    """Extend the lease of a claimed task; reports whether to stop."""
    return HeartbeatResult(id=request.id, stop=tasks.extend_lease(ctx, request.id, request.token, request.seconds))


class TaskFinish(Request, frozen=True):
    id: WholeId
    token: Token
    error: (
        Annotated[str, Meta(min_length=1, max_length=65_536, description="Why it failed; omit if it succeeded.")] | None
    ) = None
    result: Annotated[str, Meta(max_length=65_536, description="Result of the attempt.")] | None = None
    tokens_used: Annotated[int, Meta(ge=0, le=1 << 40, description="Model tokens used.")] | None = None
    agent_id: Actor | None = None


class FinishResult(Struct, frozen=True, kw_only=True):
    task: Task
    run: TaskRun


@operation(
    Effect.WRITE,
    "POST /api/v1/tasks/{id}/finish",
    cli=("task", "finish"),
    columns=("id", "state", "title"),
    examples=(
        Example({"id": "no-such-task", "token": 1}, error="NOT_FOUND"),
        Example({"id": "2c9f58e3", "token": 1}, prepared=True),
        Example({"id": "2c9f58e3", "token": 1, "error": "The printer is out of paper."}, prepared=True),
    ),
)
def task_finish(ctx: Context, request: TaskFinish) -> FinishResult:
    """Finish a claimed task: done, or failed with an error and retried later.

    A finish with an expired lease or an older token is refused and changes nothing.
    """
    how = tasks.AttemptResult(error=request.error, result=request.result, tokens=request.tokens_used)
    task, run = tasks.finish_task(ctx, request.id, request.token, how)
    return FinishResult(task=task, run=run)
