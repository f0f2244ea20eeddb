"""Point-in-time reads: what the store knew at one time (`known_at`) about what was valid at another (`as_of`).

Unchanged memories are read from their rows. Changed ones are read from the journal and filtered here in Python with the
same rules, because a past state has no row for SQL to filter.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter, seen_from
from holdfast.kernel.caller import Caller, under
from holdfast.kernel.journal import checkpoint as floors
from holdfast.kernel.journal import journal
from holdfast.kernel.journal import transaction as records
from holdfast.kernel.journal.columns import content_hash
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import OPEN_END

WINDOW = 5000
"""Journal entries or rows scanned per query."""
PAGE = 100
"""Past states read per query."""


class Then(NamedTuple):
    """The point in time of a query."""

    known: int
    """Sequence number of the last journal entry that counts."""
    known_at: int
    true_at: int | None
    at: int
    """Expiry is checked against this time."""
    degraded: str | None = None
    """Why results may be incomplete."""

    @property
    def holds_at(self) -> int:
        """Link validity is checked against this time."""
        return self.at if self.true_at is None else self.true_at

    def unchanged(self, which: Filter) -> Filter:
        """Restrict a filter to rows unchanged since the snapshot."""
        return replace(which, unchanged_since=self.known, true_at=self.true_at)


class State(NamedTuple):
    """A past state of a memory."""

    memory: Memory
    same_text: bool
    """Whether the current text is the same, so that its embeddings still apply."""


def then(session: Session, now: int, *, as_of: int | None, known_at: int | None) -> Then:
    newest = journal.head_of(session).seq
    if known_at is not None:
        floors.must_reach(session, known_at)
    known = newest if known_at is None else _kept_by(session, known_at, newest)
    moment = as_of if known_at is None else known_at
    at = now if moment is None else min(now, moment)
    degraded = None if as_of is None else floors.missing(session, as_of)
    return Then(known, OPEN_END if known_at is None else known_at, as_of, at, degraded)


def _kept_by(session: Session, at: int, newest: int) -> int:
    """Find the last entry committed by a time. Binary search: above the compaction point, entries have no gaps."""
    floor = floors.floor_of(session)
    first, last = floor.seq if floor else 0, newest
    while first < last:
        middle = (first + last + 1) // 2
        row = session.row("past_kept_at", seq=middle)
        if row is not None and row[0] <= at:
            first = middle
        else:
            last = middle - 1
    return first


def states(session: Session, caller: Caller, when: Then, which: Filter) -> Iterator[list[State]]:
    """Read past states of memories that changed since, filtered, in pages that may be empty.

    The caller must be allowed to see the memory now and in that past state.
    """
    for ids in _differing(session, caller, when):
        yield []
        for start in range(0, len(ids), PAGE):
            yield _states(session, caller, when, which, ids[start : start + PAGE])


def _differing(session: Session, caller: Caller, when: Then) -> Iterator[list[str]]:
    """Find memories whose row is not the state at the snapshot."""
    if not when.known:
        return
    for after in range(when.known, journal.head_of(session).seq, WINDOW):
        rows = session.rows("past_changed", known=when.known, after=after, upto=after + WINDOW)
        yield [row[0] for row in rows]
    if when.true_at is None:
        return
    parts, params = memories.visible(caller)
    params |= {"unchanged_since": when.known, "true_at": when.true_at}
    for after in range(0, session.newest_row(), WINDOW):
        asked = params | {"after": after, "upto": after + WINDOW}
        yield [row[0] for row in session.assembled(("past_truer", *parts, "memory.unchanged"), asked)]


def state_of(session: Session, caller: Caller, when: Then, id: str) -> State | None:
    """Read one past state; None if it was unknown, not valid or not visible to the caller."""
    return next(iter(_as_they_were(session, caller, when, [id])), None)


def _states(session: Session, caller: Caller, when: Then, which: Filter, ids: Sequence[str]) -> list[State]:
    return [one for one in _as_they_were(session, caller, when, ids) if fits(one.memory, which, when.at)]


def _as_they_were(session: Session, caller: Caller, when: Then, ids: Sequence[str]) -> list[State]:
    parts, params = memories.visible(caller)
    visible = session.assembled(("past_seen", *parts, "memory.some"), params | {"ids": list(ids)})
    hashes = {row[0]: row[1] for row in visible}
    found = []
    for row in session.rows("past_bodies", ids=list(hashes), known=when.known):
        memory = _true(session, when, journal.Entry(*row))
        if memory and memories.was_visible(session, caller, memory):
            same = content_hash(memory.title, memory.content) == hashes[memory.id]
            found.append(State(memory, same))
    return found


def _true(session: Session, when: Then, entry: journal.Entry) -> Memory | None:
    """Find the latest valid state at or before an entry; None if there was none or it was purged."""
    while entry.body is not None:
        memory = records.body_of(MEMORY, entry)
        if when.true_at is None or true_from(memory) <= when.true_at:
            over = when.true_at is not None and memory.valid_until is not None and memory.valid_until <= when.true_at
            return None if over else memory
        row = session.row("journal_last", record=entry.record, kind=entry.kind, before=entry.seq)
        if row is None:
            return None
        entry = journal.Entry(*row)
    return None


def true_from(memory: Memory) -> int:
    """Return the start of validity: `valid_from`, else the time it was written."""
    return memory.valid_from if memory.valid_from is not None else memory.updated_at


# The clauses of `memories.narrowed`, for a memory without a row


def fits(memory: Memory, which: Filter, at: int) -> bool:
    """Check a memory against a filter, as SQL does for a row."""
    return alive(memory, at, archived=which.archived) and within(memory, which)


def within(memory: Memory, which: Filter) -> bool:
    """Check a memory against a filter, ignoring its state."""
    return _placed(memory, which) and _described(memory, which)


def alive(memory: Memory, at: int, *, archived: bool) -> bool:
    if memory.state == "live" and (memory.expires_at is None or memory.expires_at > at):
        return True
    return archived and memory.state != "deleted"


def _placed(memory: Memory, which: Filter) -> bool:
    return (
        which.namespace in (None, memory.namespace)
        and (not which.namespaces or memory.namespace in which.namespaces)
        and (which.under is None or under(memory.namespace, which.under))
        and (which.as_agent is None or _seen_from(memory, which.as_agent))
    )


def _seen_from(memory: Memory, place: str) -> bool:
    above = seen_from(place)
    match memory.scope:
        case "collective":
            return True
        case "private":
            return memory.namespace == place
        case shared:
            return under(memory.namespace, above[shared])


def _described(memory: Memory, which: Filter) -> bool:
    least, below = which.confidence or (float("-inf"), float("inf"))
    return (
        which.tier in (None, memory.tier)
        and which.agent in (None, memory.agent)
        and memory.priority >= (which.min_priority or 0)
        and (which.since is None or memory.created_at >= which.since)
        and (which.until is None or memory.created_at <= which.until)
        and set(which.tags) <= set(memory.tags)
        and (not which.kinds or memory.kind in which.kinds)
        and (not which.has_citations or bool(memory.citations))
        and which.source_uri in (None, memory.source_uri)
        and (which.source_uri_prefix is None or _begins(memory.source_uri, which.source_uri_prefix))
        and least <= memory.confidence < below
    )


def _begins(text: str | None, prefix: str) -> bool:
    return text is not None and text.startswith(prefix)
