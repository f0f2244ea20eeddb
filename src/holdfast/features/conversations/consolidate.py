"""Consolidate conversations and outcomes when enough is new; one process at a time; archives before deleting."""

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
"""Conversations closed and pruned at a time."""

Gate = Literal["lease", "time", "conversations"]


class Terms(NamedTuple):
    """When to run, and retention periods."""

    hours: float = 24.0
    """Minimum time since the last run."""
    conversations: int = 5
    """Minimum number of conversations started since then."""
    prune_days: int = 30
    """Archive the turns of conversations closed this many days ago."""
    outcomes: int = 100
    """Outcomes kept per principal; older ones are archived, and deleted after `prune_days`."""
    interaction_days: int | None = None
    """Erase the text of interactions after this many days; None: never."""
    force: bool = False
    """Run regardless of time and number."""


class Consolidated(NamedTuple):
    """What was done, or the gate that prevented the run."""

    gate: Gate | None
    closed: int = 0
    pruned: int = 0
    outcomes_archived: int = 0
    outcomes_dropped: int = 0
    interactions_erased: int = 0


def consolidate(hold: Hold, terms: Terms) -> Consolidated:
    """Close, summarise and prune conversations and drop old outcomes, if enough is new.

    Safe to repeat: a crashed run is not recorded as done, and the next one does the rest.
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
    """Take or extend the lease; return False if another process holds it."""
    with hold.store.writing(hold.progress.commit) as session:
        return leases.take(session, NAME, owner, hold.now() + LEASE, hold.now())


def _gate(session: Session, terms: Terms, now: int) -> Gate | None:
    """Return the gate that prevents a run: too early, or too little is new. A first run is never too early."""
    row = session.row("last_done_get", name=NAME)
    if row is not None and now - row[0] < terms.hours * 3600 * SECOND:
        return "time"
    begun = session.row("conversations_since", since=row[0] if row is not None else -1)
    return "conversations" if begun is None or begun[0] < terms.conversations else None


def _consolidated(hold: Hold, owner: str, terms: Terms) -> Consolidated:
    closed = pruned = 0
    while True:
        if not _is_alone(hold, owner):
            raise Conflict("Another process took the lease.", retryable=True)
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
