"""Run the curator, accept or dismiss its proposals, and roll back runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.curation import store as curation
from holdfast.features.curation.consolidate import resolve_changeable
from holdfast.features.curation.run import (
    LEASE,
    MAX_DRY_RUN_SECONDS,
    WRITES,
    CurateOptions,
    CurateResult,
    CuratorRun,
    SkipMemory,
)
from holdfast.features.curation.steps import build_proposal_key, mark_not_duplicates, merge_memories, perform_step
from holdfast.features.curation.store import CurationProposal, Status
from holdfast.features.graph.service import add_link
from holdfast.features.history.service import list_undo_parts, undo_batch
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import EVERYTHING, find_namespaces, require_write_access
from holdfast.kernel.context import Context
from holdfast.kernel.errors import (
    ChangedSince,
    Conflict,
    CuratorBusy,
    HoldfastError,
    NotFound,
    OperationCancelled,
    StoreError,
)
from holdfast.kernel.journal.dry_run import open_dry_run
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.registry.stages import Stage, StageEffects


def run_curator(ctx: Context, options: CurateOptions) -> CurateResult:
    """Run the curator until its budget is spent; the next run continues from there."""
    if not options.apply:
        return _run_dry(_limit_namespaces(ctx, options), options)
    run = CuratorRun(_limit_namespaces(ctx, options), options, perform_step)
    with LEASE.hold(ctx, run.id):
        with ctx.store.transaction() as session:
            curation.begin_run(session, run.id, ctx.caller.agent, ctx.now())
        try:
            report = run.process_all()
        except BaseException as error:
            run.close("stopped" if isinstance(error, OperationCancelled) else "failed")
            raise
        run.close("done")
        return report


def list_curate_parts(ctx: Context, options: CurateOptions) -> StageEffects:
    """List the stages of a run, for hooks; none for a dry run."""
    parts = StageEffects()
    if options.apply:
        places = _list_namespaces(_limit_namespaces(ctx, options)) or options.include if options.include else ()
        for stage in (stage for step in options.steps for stage in WRITES.get(step, ())):
            parts.add(stage, places)
    return parts


def _list_namespaces(ctx: Context) -> list[str]:
    with ctx.reading() as session:
        found = memories.count_by(session, ctx.caller, EVERYTHING, ctx.now(), "namespace")
    return [name for name, _ in found]


def _run_dry(ctx: Context, options: CurateOptions) -> CurateResult:
    """Run in one transaction that is rolled back. Other writers wait meanwhile, for a limited time.

    With a model each change is rolled back separately, because a transaction must not wait for a model.
    """
    if ctx.model is not None:
        return CuratorRun(ctx, options, perform_step).process_all()
    with open_dry_run(ctx) as rehearsal:
        return CuratorRun(
            rehearsal, replace(options, max_seconds=min(options.max_seconds, MAX_DRY_RUN_SECONDS)), perform_step
        ).process_all()


def _limit_namespaces(ctx: Context, options: CurateOptions) -> Context:
    """Limit the caller to the requested namespaces."""
    include = tuple(validate.namespace(name) for name in options.include)
    for name in include:
        ctx.caller.require_access(name)
    return ctx.for_caller(replace(ctx.caller, namespaces=include), ctx.progress) if include else ctx


Outcome = Literal["applied", "rejected"]
ACCEPT_STAGES: dict[str, tuple[Stage, ...]] = {"tags": ("store",), "duplicate": ("store", "link")}
"""Hook stages of accepting a proposal, by its kind; others are a link."""


class Decision(Struct, frozen=True, kw_only=True):
    """The result for one proposal."""

    id: str
    outcome: Outcome = "applied"
    memory_id: str | None = None
    """The memory that was created or changed."""
    error: str | None = None
    code: str | None = None


class StepRollback(Struct, frozen=True, kw_only=True):
    """One step of a run that was rolled back, or the error."""

    change: int
    step: str
    memory_id: str
    outcome: Outcome = "applied"
    error: str | None = None
    code: str | None = None


R = TypeVar("R", Decision, StepRollback)


class CurateRollbackResult(Struct, frozen=True, kw_only=True):
    run_id: str
    outcomes: list[StepRollback]
    """Last step first."""
    withdrawn: int
    """Number of open proposals withdrawn."""


def decide_proposals(ctx: Context, ids: Sequence[str], *, accept: bool) -> list[Decision]:
    """Accept or dismiss proposals, each in its own transaction. Dismissed ones are not proposed again."""
    return [_decide_proposal(ctx, id, accept=accept) for id in dict.fromkeys(ids)]


def _decide_proposal(ctx: Context, id: str, *, accept: bool) -> Decision:
    try:
        with ctx.transaction() as write:
            offer = curation.get_proposal(write.session, ctx.caller, id, write.now)
            memory_id = _accept_proposal(ctx, write, offer) if accept else None
            status: Status = "accepted" if accept else "dismissed"
            if not curation.decide_proposal(write.session, id, status, ctx.caller.agent, write.now):
                raise Conflict(f"The proposal {id} is already {offer.status}.", id=id)
            return Decision(id=id, memory_id=memory_id)
    except SkipMemory as skip:
        return _reject(Decision(id=id), Conflict(f"The proposal cannot be applied: {skip}."))
    except StoreError:
        raise
    except HoldfastError as error:
        return _reject(Decision(id=id), error)


def list_accept_parts(ctx: Context, ids: Sequence[str]) -> StageEffects:
    """List the stages of accepting proposals, for hooks; missing proposals are skipped."""
    parts = StageEffects()
    with ctx.reading() as session:
        for id in dict.fromkeys(ids):
            try:
                offer = curation.get_proposal(session, ctx.caller, id, ctx.now())
            except NotFound:
                continue
            places = find_namespaces(ctx, session, [one for one in (offer.memory, offer.other) if one is not None])
            makes = [{"id": offer.memory, "tags": _parse_tags(offer)}] if offer.step == "tags" else []
            for stage in ACCEPT_STAGES.get(offer.step, ("link",)):
                parts.add(stage, places, *makes)
    return parts


def _parse_tags(offer: CurationProposal) -> tuple[str, ...]:
    """Parse the tags that a proposal adds."""
    return msgspec.convert(offer.body["tags"], tuple[str, ...])


def _accept_proposal(ctx: Context, write: Transaction, offer: CurationProposal) -> str:
    """Apply a proposal. Raises if its memories changed since."""
    several = [
        memories.resolve(write.session, ctx.caller, id, write.now)
        for id in (offer.memory, offer.other)
        if id is not None
    ]
    if curation.derive_proposal_id(offer.step, build_proposal_key(*several)) != offer.id:
        raise ChangedSince("The memories changed since this was proposed: dismiss it and run curate again.")
    first = several[0]
    require_write_access(ctx, write, first)
    match offer.step:
        case "tags":
            tags = tuple(dict.fromkeys((*first.tags, *_parse_tags(offer))))[: validate.MAX_TAGS]
            return write.change(MEMORY, first, replace(first, tags=validate.tags(tags)), "tag").id
        case "duplicate":
            return merge_memories(ctx, write, resolve_changeable(ctx, write, [one.id for one in several])).id
        case "update":
            add_link(ctx, write, first.id, several[1].id, "supersedes")
        case _:
            add_link(ctx, write, first.id, several[1].id, "contradicts")
    return first.id


def roll_back_run(ctx: Context, run_id: str) -> CurateRollbackResult:
    """Undo a run, last step first, each step as a whole. Steps changed since are kept and reported."""
    with ctx.reading() as session:
        run = curation.get_run(session, ctx.caller, run_id)
        steps = curation.list_steps(session, run.id)
    if run.status == "running":
        raise Conflict(f"The run {run.id} is still running: wait until it ends.", id=run.id)
    owner = f"rollback {ctx.new_id()}"
    with LEASE.hold(ctx, owner):
        results = [_roll_back_step(ctx, owner, run.id, step) for step in steps]
        status = "partly taken back" if any(one.error for one in results) else "taken back"
        with ctx.store.transaction() as session:
            withdrawn = curation.withdraw_proposals(session, run.id, ctx.caller.agent, ctx.now())
            curation.change_run(session, run.id, status=status)
    return CurateRollbackResult(run_id=run.id, outcomes=results, withdrawn=withdrawn)


def list_rollback_parts(ctx: Context, run_id: str) -> StageEffects:
    """List the stages of a rollback, for hooks; steps that can no longer be undone are skipped."""
    with ctx.reading() as session:
        steps = curation.list_steps(session, curation.get_run(session, ctx.caller, run_id).id)
    parts = StageEffects()
    for step in steps:
        try:
            found = list_undo_parts(ctx, step.seq, together=True)
        except StoreError:
            raise
        except HoldfastError:
            continue
        for stage, part in found.items():
            parts.add(stage, part.namespaces, *part.memories)
    return parts


def _roll_back_step(ctx: Context, owner: str, run: str, step: curation.Step) -> StepRollback:
    ctx.progress.check()
    done = StepRollback(change=step.seq, step=step.step, memory_id=step.memory)
    try:
        with ctx.transaction() as write:
            LEASE.take(write.session, owner, write.now)
            entries = undo_batch(ctx, write, step.seq)
            if step.memory not in {entry.record for entry in entries}:
                raise Conflict(f"Change {step.seq} in the journal is not the curator's.", change=step.seq)
            if step.step == "duplicates":
                back = [write.get(MEMORY, entry.record) for entry in entries if entry.kind == "memory"]
                for one, other in combinations([one for one in back if one and one.state == "live"], 2):
                    mark_not_duplicates(ctx, write, run, one, other)
            curation.STEPS.delete(write.session, run, step.seq)
    except (StoreError, CuratorBusy, OperationCancelled):
        raise
    except HoldfastError as error:
        return _reject(done, error)
    return done


def _reject(result: R, error: HoldfastError) -> R:
    """Return the result of a change that was refused."""
    return replace(result, outcome="rejected", error=error.message, code=error.code)
