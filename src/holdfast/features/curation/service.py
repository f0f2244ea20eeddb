"""Run the curator on a store, dry or applied."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.features.curation import store as curation
from holdfast.features.curation.run import LEASE, MAX_DRY_RUN_SECONDS, WRITES, CurateOptions, CurateReport, CuratorRun
from holdfast.features.curation.steps import perform_step
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import EVERYTHING
from holdfast.kernel.context import Context
from holdfast.kernel.errors import OperationCancelled
from holdfast.kernel.journal.dry_run import open_dry_run
from holdfast.kernel.records import validate
from holdfast.kernel.registry.stages import StageEffects


def run_curator(ctx: Context, options: CurateOptions) -> CurateReport:
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


def _run_dry(ctx: Context, options: CurateOptions) -> CurateReport:
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
