"""Accept or dismiss curator proposals, and roll back runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.features.curation import store as curation
from holdfast.features.curation.consolidate import changeable
from holdfast.features.curation.run import Skip, alone, take_lease
from holdfast.features.curation.steps import keep_apart, key_of, merge
from holdfast.features.curation.store import Offer, Status
from holdfast.features.graph.service import tie
from holdfast.features.history.service import parts_of_undo, places_of, undo_together
from holdfast.features.memories import store as memories
from holdfast.features.memories.store_memory import must_change
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Cancelled, ChangedSince, Conflict, CuratorBusy, HoldfastError, NotFound, StoreError
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.registry.stages import Parts, Stage

STAGES: dict[str, tuple[Stage, ...]] = {"tags": ("store",), "duplicate": ("store", "link")}
"""Hook stages of accepting a proposal, by its kind; others are a link."""


class Decided(NamedTuple):
    """The result for one proposal."""

    id: str
    error: HoldfastError | None = None
    made: str | None = None
    """The memory that was created or changed."""


class Taken(NamedTuple):
    """One step of a run that was rolled back, or the error."""

    seq: int
    step: str
    memory: str
    error: HoldfastError | None = None


class RolledBack(NamedTuple):
    run: str
    steps: list[Taken]
    withdrawn: int
    """Number of open proposals withdrawn."""


def decide(hold: Hold, ids: Sequence[str], *, accept: bool) -> list[Decided]:
    """Accept or dismiss proposals, each in its own transaction. Dismissed ones are not proposed again."""
    return [_decided(hold, id, accept=accept) for id in dict.fromkeys(ids)]


def _decided(hold: Hold, id: str, *, accept: bool) -> Decided:
    try:
        with hold.writing() as write:
            offer = curation.offer(write.session, hold.caller, id, write.now)
            memory_id = _accepted(hold, write, offer) if accept else None
            status: Status = "accepted" if accept else "dismissed"
            if not curation.decide(write.session, id, status, hold.caller.agent, write.now):
                raise Conflict(f"The proposal {id} is already {offer.status}.", id=id)
            return Decided(id, made=memory_id)
    except Skip as skip:
        return Decided(id, Conflict(f"The proposal cannot be applied: {skip}."))
    except StoreError:
        raise
    except HoldfastError as error:
        return Decided(id, error)


def parts_of_accepting(hold: Hold, ids: Sequence[str]) -> Parts:
    """List the stages of accepting proposals, for hooks; missing proposals are skipped."""
    parts = Parts()
    with hold.reading() as session:
        for id in dict.fromkeys(ids):
            try:
                offer = curation.offer(session, hold.caller, id, hold.now())
            except NotFound:
                continue
            places = places_of(hold, session, [one for one in (offer.memory, offer.other) if one is not None])
            makes = [{"id": offer.memory, "tags": _labels(offer)}] if offer.step == "tags" else []
            for stage in STAGES.get(offer.step, ("link",)):
                parts.add(stage, places, *makes)
    return parts


def _labels(offer: Offer) -> tuple[str, ...]:
    """Parse the tags that a proposal adds."""
    body = msgspec.json.decode(offer.body, type=dict[str, object])
    return msgspec.convert(body["tags"], tuple[str, ...])


def _accepted(hold: Hold, write: Transaction, offer: Offer) -> str:
    """Apply a proposal. Raises if its memories changed since."""
    several = [
        memories.resolve(write.session, hold.caller, id, write.now)
        for id in (offer.memory, offer.other)
        if id is not None
    ]
    if curation.offer_id(offer.step, key_of(*several)) != offer.id:
        raise ChangedSince("The memories changed since this was proposed: dismiss it and run curate again.")
    first = several[0]
    must_change(hold, write, first)
    match offer.step:
        case "tags":
            tags = tuple(dict.fromkeys((*first.tags, *_labels(offer))))[: door.MOST_TAGS]
            return write.change(MEMORY, first, replace(first, tags=door.tags(tags)), "tag").id
        case "duplicate":
            return merge(hold, write, changeable(hold, write, [one.id for one in several])).id
        case "update":
            tie(hold, write, first.id, several[1].id, "supersedes")
        case _:
            tie(hold, write, first.id, several[1].id, "contradicts")
    return first.id


def rollback(hold: Hold, run_id: str) -> RolledBack:
    """Undo a run, last step first, each step as a whole. Steps changed since are kept and reported."""
    with hold.reading() as session:
        run = curation.run(session, hold.caller, run_id)
        steps = curation.steps(session, run.id)
    if run.status == "running":
        raise Conflict(f"The run {run.id} is still running: wait until it ends.", id=run.id)
    owner = f"rollback {hold.new_id()}"
    with alone(hold, owner):
        results = [_taken(hold, owner, run.id, step) for step in steps]
        status = "partly taken back" if any(one.error for one in results) else "taken back"
        with hold.store.writing() as session:
            withdrawn = curation.withdraw(session, run.id, hold.caller.agent, hold.now())
            curation.take_back(session, run.id, status)
    return RolledBack(run.id, results, withdrawn)


def parts_of_rollback(hold: Hold, run_id: str) -> Parts:
    """List the stages of a rollback, for hooks; steps that can no longer be undone are skipped."""
    with hold.reading() as session:
        steps = curation.steps(session, curation.run(session, hold.caller, run_id).id)
    parts = Parts()
    for step in steps:
        try:
            found = parts_of_undo(hold, step.seq, together=True)
        except StoreError:
            raise
        except HoldfastError:
            continue
        for stage, part in found.items():
            parts.add(stage, part.places, *part.makes)
    return parts


def _taken(hold: Hold, owner: str, run: str, step: curation.Step) -> Taken:
    hold.progress.check()
    try:
        with hold.writing() as write:
            take_lease(write.session, owner, write.now)
            entries = undo_together(hold, write, step.seq)
            if step.memory not in {entry.record for entry in entries}:
                raise Conflict(f"Change {step.seq} in the journal is not the curator's.", change=step.seq)
            if step.step == "duplicates":
                back = [write.get(MEMORY, entry.record) for entry in entries if entry.kind == "memory"]
                for one, other in combinations([one for one in back if one and one.state == "live"], 2):
                    keep_apart(hold, write, run, one, other)
            curation.drop_step(write.session, run, step.seq)
    except (StoreError, CuratorBusy, Cancelled):
        raise
    except HoldfastError as error:
        return Taken(*step, error)
    return Taken(*step)
