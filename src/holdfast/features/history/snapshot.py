"""Point-in-time reads: what the store knew at one time (`known_at`) about what was valid at another (`as_of`).

Unchanged memories are read from their rows. Changed ones are read from the journal and filtered here in Python with the
same rules, because a past state has no row for SQL to filter.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import Filter, scope_params
from holdfast.kernel.context import Caller, is_under
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.journal import describe_missing_history, get_compaction_point, require_history_at
from holdfast.kernel.journal.kinds import MEMORY, body_of, content_hash
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import NO_END

ROWS_PER_SCAN = 5000
"""Journal entries or rows scanned per query."""
PAGE_SIZE = 100
"""Past states read per query."""


class Snapshot(NamedTuple):
    """The point in time of a query."""

    last_seq: int
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

    def limit_to_unchanged(self, which: Filter) -> Filter:
        """Restrict a filter to rows unchanged since the snapshot."""
        return replace(which, unchanged_since=self.last_seq, true_at=self.true_at)


class PastMemory(NamedTuple):
    """A past state of a memory."""

    memory: Memory
    has_same_text: bool
    """Whether the current text is the same, so that its embeddings still apply."""


def open_snapshot(session: Session, now: int, *, as_of: int | None, known_at: int | None) -> Snapshot:
    newest = journal.get_head(session).seq
    if known_at is not None:
        require_history_at(session, known_at)
    known = newest if known_at is None else _find_last_seq(session, known_at, newest)
    moment = as_of if known_at is None else known_at
    at = now if moment is None else min(now, moment)
    degraded = None if as_of is None else describe_missing_history(session, as_of)
    return Snapshot(known, NO_END if known_at is None else known_at, as_of, at, degraded)


def _find_last_seq(session: Session, at: int, newest: int) -> int:
    """Find the last entry committed by a time. Binary search: above the compaction point, entries have no gaps."""
    floor = get_compaction_point(session)
    first, last = floor.seq if floor else 0, newest
    while first < last:
        middle = (first + last + 1) // 2
        row = session.row("past_commit_time", seq=middle)
        if row is not None and row[0] <= at:
            first = middle
        else:
            last = middle - 1
    return first


def read_past_pages(session: Session, caller: Caller, snapshot: Snapshot, which: Filter) -> Iterator[list[PastMemory]]:
    """Read past states of memories that changed since, filtered, in pages that may be empty.

    The caller must be allowed to see the memory now and in that past state.
    """
    for ids in _find_differing_ids(session, caller, snapshot):
        yield []
        for start in range(0, len(ids), PAGE_SIZE):
            yield _read_matching(session, caller, snapshot, which, ids[start : start + PAGE_SIZE])


def _find_differing_ids(session: Session, caller: Caller, snapshot: Snapshot) -> Iterator[list[str]]:
    """Find memories whose row is not the state at the snapshot."""
    if not snapshot.last_seq:
        return
    for after in range(snapshot.last_seq, journal.get_head(session).seq, ROWS_PER_SCAN):
        rows = session.rows("past_changed_since", known=snapshot.last_seq, after=after, upto=after + ROWS_PER_SCAN)
        yield [row[0] for row in rows]
    if snapshot.true_at is None:
        return
    parts, params = memories.visibility_clauses(caller)
    params |= {"unchanged_since": snapshot.last_seq, "true_at": snapshot.true_at}
    for after in range(0, session.newest_row(), ROWS_PER_SCAN):
        asked = params | {"after": after, "upto": after + ROWS_PER_SCAN}
        yield [row[0] for row in session.select(("past_valid_at", *parts, "memory.unchanged_since"), asked)]


def read_past_memory(session: Session, caller: Caller, snapshot: Snapshot, id: str) -> PastMemory | None:
    """Read one past state; None if it was unknown, not valid or not visible to the caller."""
    return next(iter(_read_past_memories(session, caller, snapshot, [id])), None)


def _read_matching(
    session: Session, caller: Caller, snapshot: Snapshot, which: Filter, ids: Sequence[str]
) -> list[PastMemory]:
    return [
        one
        for one in _read_past_memories(session, caller, snapshot, ids)
        if matches_filter(one.memory, which, snapshot.at)
    ]


def _read_past_memories(session: Session, caller: Caller, snapshot: Snapshot, ids: Sequence[str]) -> list[PastMemory]:
    parts, params = memories.visibility_clauses(caller)
    visible = session.select(("past_visible_hashes", *parts, "memory.some"), params | {"ids": list(ids)})
    hashes = {row[0]: row[1] for row in visible}
    found = []
    for row in session.rows("past_states", ids=list(hashes), known=snapshot.last_seq):
        memory = _find_true_state(session, snapshot, journal.Entry(*row))
        if memory and memories.was_visible(session, caller, memory):
            same = content_hash(memory.title, memory.content) == hashes[memory.id]
            found.append(PastMemory(memory, same))
    return found


def _find_true_state(session: Session, snapshot: Snapshot, entry: journal.Entry) -> Memory | None:
    """Find the latest valid state at or before an entry; None if there was none or it was purged."""
    while entry.body is not None:
        memory = body_of(MEMORY, entry)
        if snapshot.true_at is None or find_true_from(memory) <= snapshot.true_at:
            over = (
                snapshot.true_at is not None
                and memory.valid_until is not None
                and memory.valid_until <= snapshot.true_at
            )
            return None if over else memory
        row = session.row("journal_last", record=entry.record, kind=entry.kind, before=entry.seq)
        if row is None:
            return None
        entry = journal.Entry(*row)
    return None


def find_true_from(memory: Memory) -> int:
    """Return the start of validity: `valid_from`, else the time it was written."""
    return memory.valid_from if memory.valid_from is not None else memory.updated_at


# The clauses of `memories.narrowed`, for a memory without a row


def matches_filter(memory: Memory, which: Filter, at: int) -> bool:
    """Check a memory against a filter, as SQL does for a row."""
    return is_alive(memory, at, archived=which.archived) and matches_any_state(memory, which)


def matches_any_state(memory: Memory, which: Filter) -> bool:
    """Check a memory against a filter, ignoring its state."""
    return _matches_namespace(memory, which) and _matches_attributes(memory, which)


def is_alive(memory: Memory, at: int, *, archived: bool) -> bool:
    if memory.state == "live" and (memory.expires_at is None or memory.expires_at > at):
        return True
    return archived and memory.state != "deleted"


def _matches_namespace(memory: Memory, which: Filter) -> bool:
    return (
        which.namespace in (None, memory.namespace)
        and (not which.namespaces or memory.namespace in which.namespaces)
        and (which.under is None or is_under(memory.namespace, which.under))
        and (which.as_agent is None or _is_visible_from(memory, which.as_agent))
    )


def _is_visible_from(memory: Memory, place: str) -> bool:
    above = scope_params(place)
    match memory.scope:
        case "collective":
            return True
        case "private":
            return memory.namespace == place
        case shared:
            return is_under(memory.namespace, above[shared])


def _matches_attributes(memory: Memory, which: Filter) -> bool:
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
        and (which.source_uri_prefix is None or _has_prefix(memory.source_uri, which.source_uri_prefix))
        and least <= memory.confidence < below
    )


def _has_prefix(text: str | None, prefix: str) -> bool:
    return text is not None and text.startswith(prefix)
