"""Operations of the curator: run, list runs and proposals, decide, roll back."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.curation import decide, service
from holdfast.features.curation import store as curation
from holdfast.features.curation.decide import list_accept_parts, list_rollback_parts
from holdfast.features.curation.run import CurateOptions
from holdfast.features.curation.service import list_curate_parts
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.kernel.registry.fields import Actor
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.registry.stages import StageEffects
from holdfast.kernel.timestamps import TimeText, format_time

Path = Annotated[str, Meta(min_length=1, max_length=512)]
Step = Literal["duplicates", "contradictions", "tags", "priorities", "personas"]
STEPS: list[Step] = ["duplicates", "contradictions", "tags", "priorities", "personas"]
RunId = Annotated[str, Meta(min_length=1, max_length=128, description="Id of the run.", extra={"argument": True})]
Status = Literal["open", "accepted", "dismissed", "withdrawn"]


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


class StepCounts(Struct, frozen=True, kw_only=True):
    looked_at: int
    changed: int
    proposed: int
    skipped: dict[str, int]
    """Number of memories skipped, by reason."""


class ActionView(Struct, frozen=True, kw_only=True):
    step: Step
    outcome: Literal["changed", "proposed"]
    ids: list[str]
    what: str


class CurateResult(Struct, frozen=True, kw_only=True):
    run_id: str | None
    """Id for `curate rollback`; null for a dry run."""
    dry_run: bool
    scanned: int
    ended: str
    """Why it ended: all was looked at, max_ops or max_seconds. The next run continues from there."""
    changed: int
    proposed: int
    steps: dict[str, StepCounts]
    done: list[ActionView]


def _build_options(request: Curate) -> "CurateOptions":
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
    report = service.run_curator(ctx, _build_options(request))
    return CurateResult(
        run_id=report.run_id,
        dry_run=report.run_id is None,
        scanned=report.scanned,
        ended=report.ended,
        changed=sum(tally.changed for tally in report.tallies.values()),
        proposed=sum(tally.proposed for tally in report.tallies.values()),
        steps={
            step: StepCounts(
                looked_at=tally.looked_at,
                changed=tally.changed,
                proposed=tally.proposed,
                skipped=dict(sorted(tally.skipped.items())),
            )
            for step, tally in report.tallies.items()
        },
        done=[
            ActionView(step=one.step, outcome=one.outcome, ids=list(one.ids), what=one.what) for one in report.actions
        ],
    )


class CurateRuns(Request, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of results, newest first.")] = 20


class CurationRunView(Struct, frozen=True, kw_only=True):
    run_id: str
    agent_id: str
    began_at: TimeText
    status: str
    """running, done, stopped, failed, broken off, taken back, or partly taken back."""
    steps: dict[str, dict[str, int]]
    ended_at: TimeText | UnsetType = UNSET


class CurationRunList(Struct, frozen=True, kw_only=True):
    runs: list[CurationRunView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/curate/runs",
    cli=("curate", "runs"),
    aliases=("curate-runs",),
    examples=(Example({}), Example({"limit": 0}, error="VALIDATION_FAILED")),
)
def curate_runs(ctx: Context, request: CurateRuns) -> CurationRunList:
    """List your curator runs; admins see all runs."""
    with ctx.reading() as session:
        found = curation.list_runs(session, ctx.caller, limit=request.limit)
    views = [
        CurationRunView(
            run_id=run.id,
            agent_id=run.agent,
            began_at=str(format_time(run.began_at)),
            status=run.status,
            steps=msgspec.json.decode(run.report, type=dict[str, dict[str, int]]),
            ended_at=format_time(run.ended_at),
        )
        for run in found
    ]
    return CurationRunList(runs=views, count=len(views))


class CurateRollback(Request, frozen=True):
    run_id: RunId
    agent_id: Actor | None = None


class StepRollbackView(Struct, frozen=True, kw_only=True):
    change: int
    step: str
    memory_id: str
    outcome: Literal["applied", "rejected"]
    error: str | UnsetType = UNSET
    code: str | UnsetType = UNSET


class CurateRollbackResult(Struct, frozen=True, kw_only=True):
    run_id: str
    outcomes: list[StepRollbackView]
    """Last step first."""
    withdrawn: int
    """Number of open proposals withdrawn."""


def _list_rollback_parts(ctx: Context, request: CurateRollback) -> StageEffects:
    return list_rollback_parts(ctx, request.run_id)


@operation(
    Effect.WRITE,
    "POST /api/v1/curate/rollback",
    cli=("curate", "rollback"),
    aliases=("curate-rollback",),
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
    result = decide.roll_back_run(ctx, request.run_id)
    outcomes = [
        StepRollbackView(change=one.seq, step=one.step, memory_id=one.memory, **_outcome_fields(one.error))
        for one in result.steps
    ]
    return CurateRollbackResult(run_id=result.run, outcomes=outcomes, withdrawn=result.withdrawn)


def _outcome_fields(error: HoldfastError | None) -> dict[str, Any]:
    if error is None:
        return {"outcome": "applied"}
    return {"outcome": "rejected", "error": error.message, "code": error.code}


class CurateProposals(Request, frozen=True):
    status: Annotated[Status, Meta(description="Only proposals with this status.")] = "open"
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of results, newest first.")] = 100


class CurationProposalView(Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    """tags, contradiction, update (the memory supersedes the other), or duplicate (both are merged)."""
    memory_id: str
    offered_at: TimeText
    status: str
    run_id: str
    details: dict[str, Any]
    """The tags or the contradicting sentences, and the method."""
    other_id: str | UnsetType = UNSET
    decided_by: str | UnsetType = UNSET


class ProposalList(Struct, frozen=True, kw_only=True):
    proposals: list[CurationProposalView]
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
    views = [
        CurationProposalView(
            id=one.id,
            kind=one.step,
            memory_id=one.memory,
            offered_at=str(format_time(one.proposed_at)),
            status=one.status,
            run_id=one.run,
            details=msgspec.json.decode(one.body, type=dict[str, Any]),
            other_id=UNSET if one.other is None else one.other,
            decided_by=UNSET if one.decided_by is None else one.decided_by,
        )
        for one in found
    ]
    return ProposalList(proposals=views, count=len(views))


class CurateDecide(Request, frozen=True):
    ids: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=128)]],
        Meta(min_length=1, max_length=100, description="Ids of the proposals.", extra={"argument": True}),
    ]
    decision: Annotated[
        Literal["accept", "dismiss"], Meta(description="accept: apply it; dismiss: never propose it again.")
    ]
    agent_id: Actor | None = None


class DecisionView(Struct, frozen=True, kw_only=True):
    id: str
    outcome: Literal["applied", "rejected"]
    memory_id: str | UnsetType = UNSET
    """The memory that was created or changed."""
    error: str | UnsetType = UNSET
    code: str | UnsetType = UNSET


class CurateDecideResult(Struct, frozen=True, kw_only=True):
    outcomes: list[DecisionView]


def _list_accept_parts(ctx: Context, request: CurateDecide) -> StageEffects:
    return list_accept_parts(ctx, request.ids) if request.decision == "accept" else StageEffects()


@operation(
    Effect.WRITE,
    "POST /api/v1/curate/decide",
    cli=("curate", "decide"),
    aliases=("curate-decide",),
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
    decisions = decide.decide_proposals(ctx, request.ids, accept=request.decision == "accept")
    return CurateDecideResult(
        outcomes=[
            DecisionView(
                id=one.id, memory_id=UNSET if one.memory_id is None else one.memory_id, **_outcome_fields(one.error)
            )
            for one in decisions
        ]
    )
