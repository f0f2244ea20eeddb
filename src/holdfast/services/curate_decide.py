"""What becomes of a curator's work: its proposals are accepted or dismissed, its changes taken back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ..domain import admit as door
from ..domain.errors import Cancelled, ChangedSince, Conflict, CuratorBusy, HoldfastError, StoreError
from ..storage import curation, memories
from ..storage.curation import Offer, Status
from ..storage.records import MEMORY, Writing
from .consolidate import changeable
from .curate import Skip, alone, take_lease
from .curate_steps import keep_apart, key_of, merge
from .history import undo_together
from .hold import Hold
from .relate import tie
from .remember import must_change


class Decided(NamedTuple):
    """What became of one proposal or step."""

    id: str
    error: HoldfastError | None = None
    made: str | None = None
    """The memory that was made or changed by it."""


class Taken(NamedTuple):
    """One step of a run that was taken back, or why not."""

    seq: int
    step: str
    memory: str
    error: HoldfastError | None = None


class RolledBack(NamedTuple):
    run: str
    steps: list[Taken]
    withdrawn: int
    """Proposals that were open."""


def decide(hold: Hold, ids: Sequence[str], *, accept: bool) -> list[Decided]:
    """Do what was proposed, or never propose it again; each by itself."""
    return [_decided(hold, id, accept=accept) for id in dict.fromkeys(ids)]


def _decided(hold: Hold, id: str, *, accept: bool) -> Decided:
    try:
        with hold.writing() as write:
            offer = curation.offer(write.session, hold.caller, id, write.now)
            made = _accepted(hold, write, offer) if accept else None
            status: Status = "accepted" if accept else "dismissed"
            if not curation.decide(write.session, id, status, hold.caller.agent, write.now):
                raise Conflict(f"The proposal {id} is {offer.status} already.", id=id)
            return Decided(id, made=made)
    except Skip as skip:
        return Decided(id, Conflict(f"It cannot be done: {skip}."))
    except StoreError:
        raise
    except HoldfastError as error:
        return Decided(id, error)


def _accepted(hold: Hold, write: Writing, offer: Offer) -> str:
    """Do what a proposal says, if its memories still say what they said."""
    several = [
        memories.resolve(write.session, hold.caller, id, write.now)
        for id in (offer.memory, offer.other)
        if id is not None
    ]
    if curation.offer_id(offer.step, key_of(*several)) != offer.id:
        raise ChangedSince("The memories changed since this was proposed: dismiss it, and let it be looked at anew.")
    first = several[0]
    must_change(hold, write, first)
    match offer.step:
        case "tags":
            body = msgspec.json.decode(offer.body, type=dict[str, object])
            given = msgspec.convert(body["tags"], tuple[str, ...])
            wanted = tuple(dict.fromkeys((*first.tags, *given)))[: door.MOST_TAGS]
            return write.change(MEMORY, first, replace(first, tags=door.tags(wanted)), "tag").id
        case "duplicate":
            return merge(hold, write, changeable(hold, write, [one.id for one in several])).id
        case "update":
            tie(hold, write, first.id, several[1].id, "supersedes")
        case _:
            tie(hold, write, first.id, several[1].id, "contradicts")
    return first.id


def rollback(hold: Hold, run_id: str) -> RolledBack:
    """Take back what a run did, the last step first, each as a whole; what somebody changed since stays and is told."""
    with hold.reading() as session:
        run = curation.run(session, hold.caller, run_id)
        steps = curation.steps(session, run.id)
    if run.status == "running":
        raise Conflict(f"The run {run.id} is at work: let it end first.", id=run.id)
    owner = f"rollback {hold.new_id()}"
    with alone(hold, owner):
        taken = [_taken(hold, owner, run.id, step) for step in steps]
        status = "partly taken back" if any(one.error for one in taken) else "taken back"
        with hold.store.writing() as session:
            withdrawn = curation.withdraw(session, run.id, hold.caller.agent, hold.now())
            curation.take_back(session, run.id, status)
    return RolledBack(run.id, taken, withdrawn)


def _taken(hold: Hold, owner: str, run: str, step: curation.Step) -> Taken:
    hold.progress.check()
    try:
        with hold.writing() as write:
            take_lease(write.session, owner, write.now)
            entries = undo_together(hold, write, step.seq)
            if step.memory not in {entry.record for entry in entries}:
                raise Conflict(f"The journal does not say that change {step.seq} was the curator's.", change=step.seq)
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
