"""Operations of the curator: run, list runs and proposals, decide, roll back."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.features.curation import service
from holdfast.features.curation import store as curation
from holdfast.features.curation.run import STEPS, CurateOptions, CurateResult, Step
from holdfast.features.curation.service import (
    CurateRollbackResult,
    Decision,
    list_accept_parts,
    list_curate_parts,
    list_rollback_parts,
)
from holdfast.features.curation.store import CurationProposal, CurationRun, Status
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.errors import Invalid
from holdfast.kernel.registry.fields import Actor
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.registry.stages import StageEffects

Path = Annotated[str, Meta(min_length=1, max_length=512)]
RunId = Annotated[str, Meta(min_length=1, max_length=128, description="Id of the run.", extra={"argument": True})]


class Curate(Request, frozen=True):
    apply: Annotated[bool, Meta(description="Apply the changes (default: dry run).")] = False
    dry_run: Annotated[bool, Meta(description="Show the changes without applying them (default).")] = False
    steps: Annotated[list[Step], Meta(max_length=5, description="Only these steps (default: all).")] = []
    include_namespace: Annotated[
        list[Path], Meta(max_length=100, description="Only these namespaces and their children.")
    ] = []
    exclude_namespace: Annotated[
        list[Path], Meta(max_length=100, description="Skip these namespaces and their children.")
    ] = []
    max_ops: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of changes and proposals.")] = 100
    max_seconds: Annotated[int, Meta(ge=1, le=86_400, description="Maximum duration in seconds.")] = 30
    max_tokens: Annotated[int, Meta(ge=0, le=1 << 40, description="Maximum model tokens.")] | None = None
    agent_id: Actor | None = None


def _build_options(request: Curate) -> CurateOptions:
    if request.apply and request.dry_run:
        raise Invalid("dry_run and apply cannot be combined", fields=["apply", "dry_run"])
    return CurateOptions(
        apply=request.apply,
        steps=tuple(step for step in STEPS if step in request.steps or not request.steps),
        include=tuple(request.include_namespace),
        exclude=tuple(request.exclude_namespace),
        max_ops=request.max_ops,
        max_seconds=request.max_seconds,
        max_tokens=request.max_tokens,
    )


def _list_curate_parts(ctx: Context, request: Curate) -> StageEffects:
    return list_curate_parts(ctx, _build_options(request))


@operation(
    Effect.WRITE,
    "POST /api/v1/curate",
    aliases=("curate run",),
    stages=("store", "link"),
    parts=_list_curate_parts,
    asks=True,
    repeats=True,
    human="holdfast.features.curation.render:render_curation",
    examples=(
        Example({}),
        Example({"apply": True, "steps": ["duplicates", "priorities"], "exclude_namespace": ["users"]}),
        Example({"apply": True, "dry_run": True}, error="VALIDATION_FAILED"),
        Example({"max_ops": 0}, error="VALIDATION_FAILED"),
        Example({"apply": True, "steps": ["duplicates"]}, prepared=True),
    ),
)
def curate(ctx: Context, request: Curate, progress: Progress) -> CurateResult:
    """Find and fix quality problems in memories; a dry run by default.

    Merges near-duplicates (sources are archived), proposes contradictions and tags, adjusts priorities by use,
    regenerates stale personas. A run ends when its budget is spent; the next one continues. `curate rollback` undoes a
    run.
    """
    return service.run_curator(ctx, _build_options(request))


class CurateRuns(Request, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of results, newest first.")] = 20


class CurationRunList(Struct, frozen=True, kw_only=True):
    runs: list[CurationRun]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/curate/runs",
    cli=("curate", "runs"),
    aliases=("curate-runs",),
    columns=("run_id", "began_at", "agent_id", "status"),
    examples=(Example({}), Example({"limit": 0}, error="VALIDATION_FAILED")),
)
def curate_runs(ctx: Context, request: CurateRuns) -> CurationRunList:
    """List your curator runs; admins see all runs."""
    with ctx.reading() as session:
        found = curation.list_runs(session, ctx.caller, limit=request.limit)
    return CurationRunList(runs=found, count=len(found))


class CurateRollback(Request, frozen=True):
    run_id: RunId
    agent_id: Actor | None = None


def _list_rollback_parts(ctx: Context, request: CurateRollback) -> StageEffects:
    return list_rollback_parts(ctx, request.run_id)


@operation(
    Effect.WRITE,
    "POST /api/v1/curate/rollback",
    cli=("curate", "rollback"),
    aliases=("curate-rollback",),
    columns=("change", "step", "memory_id", "outcome", "error"),
    empty="The run changed nothing.",
    stages=("store", "delete", "link"),
    parts=_list_rollback_parts,
    examples=(
        Example({"run_id": "no-such-run"}, error="NOT_FOUND"),
        Example({}, error="VALIDATION_FAILED"),
        Example({"run_id": "5b7c12ef"}, prepared=True),
    ),
)
def curate_rollback(ctx: Context, request: CurateRollback, progress: Progress) -> CurateRollbackResult:
    """Undo a curator run, step by step.

    Memories changed since are kept and reported. Memories that are separated again are not merged again automatically.
    """
    return service.roll_back_run(ctx, request.run_id)


class CurateProposals(Request, frozen=True):
    status: Annotated[Status, Meta(description="Only proposals with this status.")] = "open"
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of results, newest first.")] = 100


class ProposalList(Struct, frozen=True, kw_only=True):
    proposals: list[CurationProposal]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/curate/proposals",
    cli=("curate", "proposals"),
    aliases=("curate-proposals",),
    human="holdfast.features.curation.render:render_proposals",
    examples=(Example({}), Example({"status": "forgotten"}, error="VALIDATION_FAILED")),
)
def curate_proposals(ctx: Context, request: CurateProposals) -> ProposalList:
    """List curator proposals about memories that you may see."""
    with ctx.reading() as session:
        found = curation.list_proposals(session, ctx.caller, request.status, ctx.now(), limit=request.limit)
    return ProposalList(proposals=found, count=len(found))


class CurateDecide(Request, frozen=True):
    ids: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=128)]],
        Meta(min_length=1, max_length=100, description="Ids of the proposals.", extra={"argument": True}),
    ]
    decision: Annotated[
        Literal["accept", "dismiss"], Meta(description="accept: apply it; dismiss: never propose it again.")
    ]
    agent_id: Actor | None = None


class CurateDecideResult(Struct, frozen=True, kw_only=True):
    outcomes: list[Decision]


def _list_accept_parts(ctx: Context, request: CurateDecide) -> StageEffects:
    return list_accept_parts(ctx, request.ids) if request.decision == "accept" else StageEffects()


@operation(
    Effect.WRITE,
    "POST /api/v1/curate/decide",
    cli=("curate", "decide"),
    aliases=("curate-decide",),
    columns=("id", "outcome", "memory_id", "error"),
    stages=("store", "link"),
    parts=_list_accept_parts,
    examples=(
        Example({"ids": ["no-such-proposal"], "decision": "dismiss"}),
        Example({"ids": ["one"], "decision": "perhaps"}, error="VALIDATION_FAILED"),
        Example({"ids": ["9d64e3b0"], "decision": "accept"}, prepared=True),
        Example({"ids": ["9d64e3b0"], "decision": "dismiss"}, prepared=True),
    ),
)
def curate_decide(ctx: Context, request: CurateDecide) -> CurateDecideResult:
    """Accept or dismiss proposals, each separately; outdated ones are rejected."""
    return CurateDecideResult(outcomes=service.decide_proposals(ctx, request.ids, accept=request.decision == "accept"))
