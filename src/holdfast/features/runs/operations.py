"""Operations on runs (checkpointed work in phases) and provider sessions."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from holdfast.features.runs import service as runs
from holdfast.features.runs.store import Phase, ProviderSession, Run, RunDetails, RunPlan, RunState, Scope
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Actor, Limit, Namespace, Skip, Timestamp
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import Time, parse_time

Name = Annotated[str, Meta(min_length=1, max_length=128)]
RunId = Annotated[str, Meta(min_length=1, max_length=128, description="Id of a run.", extra={"argument": True})]
Token = Annotated[int, Meta(ge=1, le=(1 << 53) - 1, description="Fencing token returned by run open.")]
Seconds = Annotated[int, Meta(ge=1, le=86_400, description="Length of the lease in seconds.")]
PrincipalName = Annotated[str, Meta(min_length=1, max_length=128, description="Owner [default: the agent].")]


class RunOpen(Request, frozen=True):
    topology: Annotated[Name, Meta(description="Name of the plan.", extra={"argument": True})]
    phases: Annotated[list[Name], Meta(min_length=1, max_length=1000, description="Phases in order.")]
    id: (
        Annotated[str, Meta(min_length=1, max_length=128, description="Id of the run to resume, or for a new one.")]
        | None
    ) = None
    definition: Annotated[
        dict[str, Any], Meta(description="Anything else that defines the plan; a change makes it a different plan.")
    ] = {}
    inputs: Annotated[dict[str, Any], Meta(description="Inputs of this run.")] = {}
    owner: Annotated[Name, Meta(description="Owner of the lease [default: the agent].")] | None = None
    seconds: Seconds = 300
    principal: PrincipalName | None = None
    namespace: Namespace | None = None
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/runs",
    cli=("task", "run", "open"),
    aliases=("run open",),
    columns=("id", "topology", "state"),
    examples=(
        Example({"topology": "release", "phases": ["build", "test", "publish"], "id": "example-run"}),
        Example({"topology": "release", "phases": ["build", "build"]}, error="VALIDATION_FAILED"),
        Example({"topology": "release", "phases": []}, error="VALIDATION_FAILED"),
        Example({"topology": "release", "phases": ["build", "test", "publish"]}, prepared=True),
        Example({"topology": "release", "phases": ["build", "test", "publish"], "id": "c42e8d19"}, prepared=True),
    ),
)
def run_open(ctx: Context, request: RunOpen) -> RunDetails:
    """Start a run, or resume it at its first incomplete phase, under a lease.

    A run resumes only with the same plan and inputs. Completed phases keep their output.
    """
    return runs.open_run(
        ctx,
        RunPlan(request.topology, tuple(request.phases), request.definition),
        request.inputs,
        owner=request.owner or ctx.caller.agent,
        seconds=request.seconds,
        id=request.id,
        principal=request.principal,
        namespace=request.namespace,
    )


class RunStep(Request, frozen=True):
    id: RunId
    token: Token
    phase: Annotated[Name, Meta(description="Name of the phase.")]
    state: Annotated[Literal["in_progress", "completed", "failed"], Meta(description="New state of the phase.")]
    output: Annotated[str, Meta(max_length=1 << 20, description="Output of the phase, complete or partial.")] | None = (
        None
    )
    error: Annotated[str, Meta(min_length=1, max_length=65_536, description="Why it failed.")] | None = None
    seconds: Seconds = 300
    agent_id: Actor | None = None


class StepResult(Struct, frozen=True, kw_only=True):
    run_id: str
    phase: Phase
    lease_until: Time


@operation(
    Effect.WRITE,
    "POST /api/v1/runs/{id}/step",
    cli=("task", "run", "step"),
    aliases=("run step",),
    examples=(
        Example({"id": "no-such-run", "token": 1, "phase": "build", "state": "in_progress"}, error="NOT_FOUND"),
        Example({"id": "no-such-run", "token": 1, "phase": "build", "state": "failed"}, error="VALIDATION_FAILED"),
        Example({"id": "c42e8d19", "token": 1, "phase": "build", "state": "completed"}, prepared=True),
        Example(
            {"id": "c42e8d19", "token": 1, "phase": "build", "state": "failed", "error": "Disk full."}, prepared=True
        ),
    ),
)
def run_step(ctx: Context, request: RunStep) -> StepResult:
    """Record that a phase started, completed or failed; extends the lease."""
    run, phase = runs.step_run(
        ctx,
        request.id,
        request.token,
        request.phase,
        request.state,
        output=request.output,
        error=request.error,
        seconds=request.seconds,
    )
    return StepResult(run_id=run.id, phase=phase, lease_until=run.lease_until or 0)


class RunHeartbeat(Request, frozen=True):
    id: RunId
    token: Token
    seconds: Seconds = 300
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/runs/{id}/heartbeat",
    cli=("task", "run", "heartbeat"),
    aliases=("run heartbeat",),
    examples=(
        Example({"id": "no-such-run", "token": 1}, error="NOT_FOUND"),
        Example({"id": "c42e8d19", "token": 1}, prepared=True),
    ),
)
def run_heartbeat(ctx: Context, request: RunHeartbeat) -> Run:
    """Extend the lease of a run."""
    return runs.extend_lease(ctx, request.id, request.token, request.seconds)


class RunClose(Request, frozen=True):
    id: RunId
    token: Token
    error: (
        Annotated[str, Meta(min_length=1, max_length=65_536, description="Why the run failed; it can be resumed.")]
        | None
    ) = None
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/runs/{id}/close",
    cli=("task", "run", "close"),
    aliases=("run close",),
    columns=("id", "topology", "state"),
    examples=(
        Example({"id": "no-such-run", "token": 1}, error="NOT_FOUND"),
        Example({"id": "e6b37a20", "token": 1}, prepared=True),
        Example({"id": "c42e8d19", "token": 1, "error": "The tests failed."}, prepared=True),
    ),
)
def run_close(ctx: Context, request: RunClose) -> RunDetails:
    """End a run: completed, or failed with an error and resumable."""
    return runs.close_run(ctx, request.id, request.token, request.error)


class RunShow(Request, frozen=True):
    id: RunId


@operation(
    Effect.READ,
    "GET /api/v1/runs/{id}",
    cli=("task", "run", "show"),
    aliases=("run show",),
    columns=("id", "topology", "state"),
    examples=(Example({"id": "no-such-run"}, error="NOT_FOUND"), Example({"id": "c42e8d19"}, prepared=True)),
)
def run_show(ctx: Context, request: RunShow) -> RunDetails:
    """Show a run and the state of its phases."""
    return runs.get_run(ctx, request.id)


class RunList(Request, frozen=True):
    state: Annotated[RunState, Meta(description="Only runs in this state.")] | None = None
    principal: Annotated[list[str], Meta(max_length=20, description="Only runs of these principals.")] = []
    limit: Limit = 50
    offset: Skip = 0


class RunPage(Struct, frozen=True, kw_only=True):
    runs: list[Run]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/runs",
    cli=("task", "run", "list"),
    aliases=("run list",),
    columns=("id!", "topology", "state", "updated_at"),
    examples=(Example({}), Example({"state": "asleep"}, error="VALIDATION_FAILED")),
)
def run_list(ctx: Context, request: RunList) -> RunPage:
    """List runs, most recently updated first."""
    found = runs.list_runs(ctx, tuple(request.principal), request.state, request.limit, request.offset)
    return RunPage(runs=found, count=len(found))


class RunClear(Request, frozen=True):
    id: RunId
    agent_id: Actor | None = None


class RunClearResult(Struct, frozen=True, kw_only=True):
    id: str


@operation(
    Effect.DESTROY,
    "DELETE /api/v1/runs/{id}",
    cli=("task", "run", "clear"),
    aliases=("run clear",),
    irreversible=True,
    examples=(Example({"id": "no-such-run"}, error="NOT_FOUND"), Example({"id": "b19c6d70"}, prepared=True)),
)
def run_clear(ctx: Context, request: RunClear) -> RunClearResult:
    """Delete a run with its phases and output, unless its lease is live."""
    return RunClearResult(id=runs.delete_run(ctx, request.id).id)


class SessionKeep(Request, frozen=True):
    session_id: Annotated[
        str,
        Meta(min_length=1, max_length=512, description="Session id given by the provider.", extra={"argument": True}),
    ]
    provider: Annotated[Name, Meta(description="Provider of the session, such as claude.")]
    channel: Annotated[str, Meta(max_length=128, description="Channel of the session.")] = ""
    principal: PrincipalName | None = None
    namespace: Namespace | None = None
    expires_at: Timestamp | None = None
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/sessions",
    cli=("agents", "session", "set"),
    aliases=("session keep",),
    examples=(
        Example({"session_id": "abc", "provider": "claude", "channel": "cli"}),
        Example({"session_id": "abc", "provider": "claude", "expires_at": "2001-01-01"}, error="VALIDATION_FAILED"),
    ),
)
def session_keep(ctx: Context, request: SessionKeep) -> ProviderSession:
    """Save the current provider session of a channel, principal and namespace."""
    scope = Scope(request.channel, request.principal or ctx.caller.agent, request.namespace or ctx.namespace)
    expires = parse_time(request.expires_at, "expires_at")
    return runs.keep_session(ctx, scope, request.provider, request.session_id, expires)


class SessionGet(Request, frozen=True):
    channel: Annotated[str, Meta(max_length=128, description="Channel of the session.")] = ""
    principal: PrincipalName | None = None
    namespace: Namespace | None = None
    provider: Annotated[Name, Meta(description="Only a session of this provider.")] | None = None


class SessionGetResult(Struct, frozen=True, kw_only=True):
    session: ProviderSession | None
    """Null if there is no session or it has expired."""


@operation(
    Effect.READ,
    "GET /api/v1/sessions",
    cli=("agents", "session", "get"),
    aliases=("session get",),
    examples=(Example({}), Example({"provider": ""}, error="VALIDATION_FAILED")),
)
def session_get(ctx: Context, request: SessionGet) -> SessionGetResult:
    """Get the current provider session, if any."""
    scope = Scope(request.channel, request.principal or ctx.caller.agent, request.namespace or ctx.namespace)
    return SessionGetResult(session=runs.find_session(ctx, scope, request.provider))


class SessionClear(Request, frozen=True):
    principal: PrincipalName | None = None
    channel: Annotated[str, Meta(max_length=128, description="Channel of the session.")] = ""
    namespace: Namespace | None = None
    everywhere: Annotated[bool, Meta(description="In every channel and namespace.")] = False
    agent_id: Actor | None = None


class SessionClearResult(Struct, frozen=True, kw_only=True):
    cleared: int


@operation(
    Effect.DESTROY,
    "POST /api/v1/sessions/clear",
    cli=("agents", "session", "clear"),
    aliases=("session clear",),
    examples=(
        Example({"everywhere": True}),
        Example({"principal": ""}, error="VALIDATION_FAILED"),
        Example({"channel": "cli"}, prepared=True),
    ),
)
def session_clear(ctx: Context, request: SessionClear) -> SessionClearResult:
    """Delete the saved session of one scope, or all of them."""
    principal = request.principal or ctx.caller.agent
    scope = None if request.everywhere else Scope(request.channel, principal, request.namespace or ctx.namespace)
    return SessionClearResult(cleared=runs.clear_sessions(ctx, principal, scope))
