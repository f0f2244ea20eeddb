"""Consolidating what agents heard: now and then, when enough is new, by one process at a time; archived before it is
taken away."""

from typing import Literal, NamedTuple

from holdfast.features.access import interactions
from holdfast.features.conversations import service as conversations
from holdfast.features.learning import store as outcomes
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict
from holdfast.kernel.storage import leases
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY, SECOND

NAME = "consolidation"
LEASE = 900 * SECOND
BATCH = 100
"""Conversations that are closed, and put away, at a time."""

Gate = Literal["lease", "time", "conversations"]


class Terms(NamedTuple):
    """When it is worth it, and how long things are kept."""

    hours: float = 24.0
    """Since the last time, at least."""
    conversations: int = 5
    """Begun since then, at least."""
    prune_days: int = 30
    """After so many days the turns of what was closed go into the archive."""
    outcomes: int = 100
    """So many of each principal count; earlier ones are archived, and taken away after as many days."""
    interaction_days: int | None = None
    """After so many days what was said in interactions is erased; None: never."""
    force: bool = False
    """Whether time and number do not matter."""


class Consolidated(NamedTuple):
    """What was done; or by which gate nothing was."""

    gate: Gate | None
    closed: int = 0
    pruned: int = 0
    outcomes_archived: int = 0
    outcomes_dropped: int = 0
    interactions_erased: int = 0


def consolidate(hold: Hold, terms: Terms) -> Consolidated:
    """Close and summarise, put away what summaries tell of, and let old evidence go; if it is worth it by now.

    Whoever dies in the middle has not noted that it is done: the next one begins anew, and finds what is left to do.
    """
    owner, began = hold.new_id(), hold.now()
    if not _is_alone(hold, owner):
        return Consolidated("lease")
    try:
        with hold.reading() as session:
            gate = None if terms.force else _gate(session, terms, began)
        if gate is not None:
            return Consolidated(gate)
        done = _consolidated(hold, owner, terms)
        with hold.store.writing(hold.progress.commit) as session:
            session.do("last_done_put", name=NAME, at=began)
        return done
    except Conflict as busy:
        if not busy.retryable:
            raise
        return Consolidated("lease")
    finally:
        with hold.store.writing() as session:
            leases.release(session, NAME, owner)


def _is_alone(hold: Hold, owner: str) -> bool:
    """Whether this process alone consolidates, for a while from now."""
    with hold.store.writing(hold.progress.commit) as session:
        return leases.take(session, NAME, owner, hold.now() + LEASE, hold.now())


def _gate(session: Session, terms: Terms, now: int) -> Gate | None:
    """The gate that is shut: too early, or too little is new. What never was consolidated is not too early."""
    row = session.row("last_done_get", name=NAME)
    if row is not None and now - row[0] < terms.hours * 3600 * SECOND:
        return "time"
    begun = session.row("conversations_since", since=row[0] if row is not None else -1)
    return "conversations" if begun is None or begun[0] < terms.conversations else None


def _consolidated(hold: Hold, owner: str, terms: Terms) -> Consolidated:
    closed = pruned = 0
    while True:
        if not _is_alone(hold, owner):
            raise Conflict("Another took over.", retryable=True)
        reaped = conversations.reap(hold, BATCH, terms.prune_days)
        closed, pruned = closed + len(reaped.closed), pruned + len(reaped.pruned)
        if max(len(reaped.closed), len(reaped.pruned)) < BATCH:
            break
    with hold.store.writing(hold.progress.commit) as session:
        dropped = outcomes.drop(session, hold.now() - terms.prune_days * DAY)
        archived = outcomes.archive(session, terms.outcomes, hold.now())
    days = terms.interaction_days
    erased = 0 if days is None else interactions.erase_older(hold, days)
    return Consolidated(None, closed, pruned, archived, dropped, erased)
