"""Run the curator on a store, dry or applied."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.features.curation import store as curation
from holdfast.features.curation.run import MOST_SHOWN_SECONDS, WRITES, Asked, Curated, Run, alone
from holdfast.features.curation.steps import perform
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import EVERYTHING
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Cancelled
from holdfast.kernel.journal.dry_run import rehearsed
from holdfast.kernel.records import validate as door
from holdfast.kernel.registry.stages import Parts


def curate(hold: Hold, asked: Asked) -> Curated:
    """Run the curator until its budget is spent; the next run continues from there."""
    if not asked.apply:
        return _shown(_within(hold, asked), asked)
    run = Run(_within(hold, asked), asked, perform)
    with alone(hold, run.id):
        with hold.store.writing() as session:
            curation.begin(session, run.id, hold.caller.agent, hold.now())
        try:
            report = run.over_all()
        except BaseException as error:
            run.close("stopped" if isinstance(error, Cancelled) else "failed")
            raise
        run.close("done")
        return report


def parts_of_curating(hold: Hold, asked: Asked) -> Parts:
    """List the stages of a run, for hooks; none for a dry run."""
    parts = Parts()
    if asked.apply:
        places = _places(_within(hold, asked)) or asked.include if asked.include else ()
        for stage in (stage for step in asked.steps for stage in WRITES.get(step, ())):
            parts.add(stage, places)
    return parts


def _places(hold: Hold) -> list[str]:
    with hold.reading() as session:
        found = memories.counts(session, hold.caller, EVERYTHING, hold.now(), "namespace")
    return [name for name, _ in found]


def _shown(hold: Hold, asked: Asked) -> Curated:
    """Run in one transaction that is rolled back. Other writers wait meanwhile, for a limited time.

    With a model each change is rolled back separately, because a transaction must not wait for a model.
    """
    if hold.model is not None:
        return Run(hold, asked, perform).over_all()
    with rehearsed(hold) as rehearsal:
        return Run(
            rehearsal, replace(asked, max_seconds=min(asked.max_seconds, MOST_SHOWN_SECONDS)), perform
        ).over_all()


def _within(hold: Hold, asked: Asked) -> Hold:
    """Limit the caller to the requested namespaces."""
    include = tuple(door.namespace(name) for name in asked.include)
    for name in include:
        hold.caller.must_reach(name)
    return hold.seen_by(replace(hold.caller, namespaces=include), hold.progress) if include else hold
