"""Keeping a store in order: a run of the curator, what it proposes, and the way back."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.curation import decide as deciding
from holdfast.features.curation import service as curating
from holdfast.features.curation import store as curation
from holdfast.features.curation.decide import parts_of_accepting, parts_of_rollback
from holdfast.features.curation.run import Asked
from holdfast.features.curation.service import parts_of_curating
from holdfast.features.memories.views import text
from holdfast.kernel.context import Hold, Progress
from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.kernel.registry.fields import Actor
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.registry.stages import Parts

Path = Annotated[str, Meta(min_length=1, max_length=512)]
Step = Literal["duplicates", "contradictions", "tags", "priorities", "personas"]
STEPS: list[Step] = ["duplicates", "contradictions", "tags", "priorities", "personas"]
RunId = Annotated[str, Meta(min_length=1, max_length=128, description="Which run.", extra={"argument": True})]
Status = Literal["open", "accepted", "dismissed", "withdrawn"]


class Curate(Request, frozen=True):
    apply: Annotated[bool, Meta(description="Do it; otherwise it is only shown.")] = False
    dry_run: Annotated[bool, Meta(description="Only show what it would do, as without apply.")] = False
    steps: Annotated[list[Step], Meta(max_length=5, description="Only these; all, unless told.")] = []
    include_namespace: Annotated[list[Path], Meta(max_length=100, description="Only these and what lies below.")] = []
    exclude_namespace: Annotated[list[Path], Meta(max_length=100, description="Not these, nor what lies below.")] = []
    max_ops: Annotated[int, Meta(ge=1, le=10_000, description="At most so many changes and proposals.")] = 100
    max_seconds: Annotated[int, Meta(ge=1, le=86_400, description="No longer than this.")] = 30
    max_tokens: Annotated[int, Meta(ge=0, le=1 << 40, description="At most so many tokens of a model.")] | None = None
    agent_id: Actor | None = None


class StepTold(Struct, frozen=True, kw_only=True):
    looked_at: int
    changed: int
    proposed: int
    skipped: dict[str, int]
    """How many were left as they are, by the reason."""


class DoneView(Struct, frozen=True, kw_only=True):
    step: Step
    outcome: Literal["changed", "proposed"]
    ids: list[str]
    what: str


class Curated(Struct, frozen=True, kw_only=True):
    run_id: str | None
    """By which it can be taken back; null if nothing was changed, because it was a dry run."""
    dry_run: bool
    scanned: int
    ended: str
    """Why it ended: all was looked at, max_ops or max_seconds. The next run goes on from there."""
    changed: int
    proposed: int
    steps: dict[str, StepTold]
    done: list[DoneView]


def _asked(request: Curate) -> "Asked":
    if request.apply and request.dry_run:
        raise Invalid("dry_run: goes against apply", fields=["apply", "dry_run"])
    return Asked(
        apply=request.apply,
        steps=tuple(step for step in STEPS if step in request.steps or not request.steps),
        include=tuple(request.include_namespace),
        exclude=tuple(request.exclude_namespace),
        max_ops=request.max_ops,
        max_seconds=request.max_seconds,
        max_tokens=request.max_tokens,
    )


def _curated(hold: Hold, request: Curate) -> Parts:
    return parts_of_curating(hold, _asked(request))


@operation(
    Effect.WRITE,
    "POST /api/v1/curate",
    family="power",
    stages=("store", "link"),
    parts=_curated,
    asks=True,
    repeats=True,
    human="holdfast.features.curation.render:render_curation",
    examples=(
        Example({}),
        Example({"apply": True, "steps": ["duplicates", "priorities"], "exclude_namespace": ["users"]}),
        Example({"apply": True, "dry_run": True}, error="VALIDATION_FAILED"),
        Example({"max_ops": 0}, error="VALIDATION_FAILED"),
    ),
)
def curate(hold: Hold, request: Curate, progress: Progress) -> Curated:
    """Tidy the memories that you may change: show what there is to do, or do it if asked to apply it.

    Near-duplicates are made one, and archived; contradictions and labels are proposed; use moves priorities; personas
    are made anew. A run ends when its budget is spent, and the next one goes on from there. It can be taken back.
    """
    done = curating.curate(hold, _asked(request))
    return Curated(
        run_id=done.run,
        dry_run=done.run is None,
        scanned=done.scanned,
        ended=done.ended,
        changed=sum(tally.changed for tally in done.tallies.values()),
        proposed=sum(tally.proposed for tally in done.tallies.values()),
        steps={
            step: StepTold(
                looked_at=tally.looked_at,
                changed=tally.changed,
                proposed=tally.proposed,
                skipped=dict(sorted(tally.skipped.items())),
            )
            for step, tally in done.tallies.items()
        },
        done=[DoneView(step=one.step, outcome=one.outcome, ids=list(one.ids), what=one.what) for one in done.done],
    )


class CurateRuns(Request, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=1000, description="At most so many, the newest first.")] = 20


class RunView(Struct, frozen=True, kw_only=True):
    run_id: str
    agent_id: str
    began_at: str
    status: str
    """running, done, stopped, failed, broken off, taken back, or partly taken back."""
    steps: dict[str, dict[str, int]]
    ended_at: str | UnsetType = UNSET


class Runs(Struct, frozen=True, kw_only=True):
    runs: list[RunView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/curate/runs",
    family="power",
    examples=(Example({}), Example({"limit": 0}, error="VALIDATION_FAILED")),
)
def curate_runs(hold: Hold, request: CurateRuns) -> Runs:
    """List what curators did: your own runs, or all of them for who administers the store."""
    with hold.reading() as session:
        found = curation.runs(session, hold.caller, limit=request.limit)
    shown = [
        RunView(
            run_id=run.id,
            agent_id=run.agent,
            began_at=str(text(run.began_at)),
            status=run.status,
            steps=msgspec.json.decode(run.report, type=dict[str, dict[str, int]]),
            ended_at=text(run.ended_at),
        )
        for run in found
    ]
    return Runs(runs=shown, count=len(shown))


class CurateRollback(Request, frozen=True):
    run_id: RunId
    agent_id: Actor | None = None


class TakenBack(Struct, frozen=True, kw_only=True):
    change: int
    step: str
    memory_id: str
    outcome: Literal["applied", "rejected"]
    error: str | UnsetType = UNSET
    code: str | UnsetType = UNSET


class RunTakenBack(Struct, frozen=True, kw_only=True):
    run_id: str
    outcomes: list[TakenBack]
    """The last step first."""
    withdrawn: int
    """Proposals that nobody had decided about."""


def _rolled_back(hold: Hold, request: CurateRollback) -> Parts:
    return parts_of_rollback(hold, request.run_id)


@operation(
    Effect.WRITE,
    "POST /api/v1/curate/rollback",
    family="power",
    stages=("store", "delete", "link"),
    parts=_rolled_back,
    examples=(Example({"run_id": "no-such-run"}, error="NOT_FOUND"), Example({}, error="VALIDATION_FAILED")),
)
def curate_rollback(hold: Hold, request: CurateRollback, progress: Progress) -> RunTakenBack:
    """Take back everything that a run of the curator did, step by step.

    What somebody changed since stays, and is told. What is parted again is not made one by itself any more.
    """
    from holdfast.features.curation import decide as curate_decide

    done = curate_decide.rollback(hold, request.run_id)
    outcomes = [
        TakenBack(change=one.seq, step=one.step, memory_id=one.memory, **_outcome(one.error)) for one in done.steps
    ]
    return RunTakenBack(run_id=done.run, outcomes=outcomes, withdrawn=done.withdrawn)


def _outcome(error: HoldfastError | None) -> dict[str, Any]:
    if error is None:
        return {"outcome": "applied"}
    return {"outcome": "rejected", "error": error.message, "code": error.code}


class CurateProposals(Request, frozen=True):
    status: Annotated[Status, Meta(description="What became of them.")] = "open"
    limit: Annotated[int, Meta(ge=1, le=1000, description="At most so many, the newest first.")] = 100


class Proposal(Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    """tags, contradiction, update (the memory supersedes the other), or duplicate (both are made one)."""
    memory_id: str
    offered_at: str
    status: str
    run_id: str
    details: dict[str, Any]
    """The labels, or the sentences that stand against each other; and the method."""
    other_id: str | UnsetType = UNSET
    decided_by: str | UnsetType = UNSET


class Proposals(Struct, frozen=True, kw_only=True):
    proposals: list[Proposal]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/curate/proposals",
    family="power",
    human="holdfast.features.curation.render:render_proposals",
    examples=(Example({}), Example({"status": "forgotten"}, error="VALIDATION_FAILED")),
)
def curate_proposals(hold: Hold, request: CurateProposals) -> Proposals:
    """List what curators propose about memories that you may see."""
    with hold.reading() as session:
        found = curation.offers(session, hold.caller, request.status, hold.now(), limit=request.limit)
    shown = [
        Proposal(
            id=one.id,
            kind=one.step,
            memory_id=one.memory,
            offered_at=str(text(one.offered_at)),
            status=one.status,
            run_id=one.run,
            details=msgspec.json.decode(one.body, type=dict[str, Any]),
            other_id=UNSET if one.other is None else one.other,
            decided_by=UNSET if one.decided_by is None else one.decided_by,
        )
        for one in found
    ]
    return Proposals(proposals=shown, count=len(shown))


class CurateDecide(Request, frozen=True):
    ids: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=128)]],
        Meta(min_length=1, max_length=100, description="Which proposals.", extra={"argument": True}),
    ]
    decision: Annotated[
        Literal["accept", "dismiss"], Meta(description="Do what is proposed, or never propose it again.")
    ]
    agent_id: Actor | None = None


class DecidedView(Struct, frozen=True, kw_only=True):
    id: str
    outcome: Literal["applied", "rejected"]
    memory_id: str | UnsetType = UNSET
    """What was made or changed by it."""
    error: str | UnsetType = UNSET
    code: str | UnsetType = UNSET


class ProposalsDecided(Struct, frozen=True, kw_only=True):
    outcomes: list[DecidedView]


def _accepted(hold: Hold, request: CurateDecide) -> Parts:
    return parts_of_accepting(hold, request.ids) if request.decision == "accept" else Parts()


@operation(
    Effect.WRITE,
    "POST /api/v1/curate/decide",
    family="power",
    stages=("store", "link"),
    parts=_accepted,
    examples=(
        Example({"ids": ["no-such-proposal"], "decision": "dismiss"}),
        Example({"ids": ["one"], "decision": "perhaps"}, error="VALIDATION_FAILED"),
    ),
)
def curate_decide(hold: Hold, request: CurateDecide) -> ProposalsDecided:
    """Accept or dismiss proposals, each by itself; what changed since it was proposed is refused."""
    done = deciding.decide(hold, request.ids, accept=request.decision == "accept")
    return ProposalsDecided(
        outcomes=[
            DecidedView(id=one.id, memory_id=UNSET if one.made is None else one.made, **_outcome(one.error))
            for one in done
        ]
    )
