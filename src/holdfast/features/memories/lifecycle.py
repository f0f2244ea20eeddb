"""Archive, restore, delete, forget, collect and purge memories."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.graph.model import ALIAS
from holdfast.features.llm import store as consulted
from holdfast.features.memories import store as memories
from holdfast.features.memories.find_memories import normal
from holdfast.features.memories.store import Filter
from holdfast.features.memories.store_memory import must_be_free, must_change
from holdfast.features.memories.update_memory import must_be_version
from holdfast.features.reflections.invalidation import INVALIDATION
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import HoldfastError, StoreError
from holdfast.kernel.journal import title_groups
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.text.words import asked

BATCH = 1000


class Put(NamedTuple):
    """The outcome of archiving several memories."""

    done: list[Memory]
    refused: list[tuple[str, HoldfastError]]


def delete(hold: Hold, id: str, expected_version: int | None = None) -> Memory:
    """Delete a memory. Its history remains; `undo` restores it."""
    with hold.writing() as write:
        memory = memories.resolve(write.session, hold.caller, id, write.now, view="kept")
        must_change(hold, write, memory)
        must_be_version(memory, expected_version)
        return write.change(MEMORY, memory, replace(memory, state="deleted"), "delete")


def archive(hold: Hold, ids: list[str], reason: str) -> Put:
    """Archive memories with their links; each succeeds or fails on its own."""
    door.label("reason", reason)
    result = Put([], [])
    with hold.writing() as write:
        for id in dict.fromkeys(ids):
            try:
                memory = memories.resolve(write.session, hold.caller, id, write.now)
                must_change(hold, write, memory)
                result.done.append(put_away(write, memory, reason, "archive"))
            except StoreError:
                raise
            except HoldfastError as error:
                result.refused.append((id, error))
    return result


def put_away(write: Transaction, memory: Memory, reason: str, op: str) -> Memory:
    return write.change(MEMORY, memory, replace(memory, state="archived", reason=reason), op)


def restore(hold: Hold, id: str) -> Memory:
    """Restore an archived or expired memory and restart its lifetime."""
    with hold.writing() as write:
        memory = _put_away(hold, write, id)
        must_change(hold, write, memory)
        must_be_free(hold, write, memory)
        return bring_back(hold, write, memory)


def bring_back(hold: Hold, write: Transaction, memory: Memory) -> Memory:
    live = replace(memory, state="live", reason=None, expires_at=_new_end(hold, memory, write.now))
    return write.change(MEMORY, memory, live, "restore")


def _put_away(hold: Hold, write: Transaction, id: str) -> Memory:
    return memories.resolve(write.session, hold.caller, id, write.now, view="put_away")


def _new_end(hold: Hold, memory: Memory, now: int) -> int | None:
    if memory.expires_at is None:
        return None
    end = hold.lifetimes.expiry(memory.tier, now)
    if end is None:
        return memory.expires_at if memory.expires_at > now else None
    return max(end, memory.expires_at)


class Gone(NamedTuple):
    """Ids that a bulk change affected, and ids that it skipped for lack of write access."""

    ids: list[str]
    kept: list[str]


def forget(hold: Hold, which: Filter, pattern: str | None, *, dry_run: bool) -> Gone:
    """Archive every writable memory that matches a filter and contains any word of a pattern."""
    with hold.writing() as write:
        found, skipped = _allowed(hold, write, _named(hold, write, which, pattern))
        for number, memory in enumerate(found):
            hold.progress(number, len(found), "forgetting")
            if not dry_run:
                put_away(write, memory, "forget", "forget")
    return Gone([memory.id for memory in found], skipped)


def _allowed(hold: Hold, write: Transaction, found: list[Memory]) -> tuple[list[Memory], list[str]]:
    """Split memories into those the caller may change and the ids of the others."""
    may = {memory.id for memory in found if memories.may_change(write.session, hold.caller, memory.id)}
    return [memory for memory in found if memory.id in may], [memory.id for memory in found if memory.id not in may]


def _named(hold: Hold, write: Transaction, which: Filter, pattern: str | None) -> list[Memory]:
    session = write.session
    everything = memories.count(session, hold.caller, normal(which), write.now)
    if pattern is None:
        return memories.select(session, hold.caller, which, write.now, order="by_creation", limit=everything)
    words = asked(pattern)
    if not words:
        return []
    hits = memories.matching(session, hold.caller, words, which, write.now, limit=everything)
    found = memories.by_ids(session, hold.caller, [hit.id for hit in hits], write.now).values()
    return sorted(found, key=lambda memory: (memory.created_at, memory.id))


BEFORE_COLLECTING: list[Callable[[Hold], None]] = []
COLLECTORS: list[Callable[[Hold, Transaction], None]] = []


def before_collecting(prepare: Callable[[Hold], None]) -> None:
    """Register a function to call before expired memories are collected, outside the transaction."""
    BEFORE_COLLECTING.append(prepare)


def on_collect(collector: Callable[[Hold, Transaction], None]) -> None:
    """Register a function to call in each collecting transaction, so that features can drop expired rows."""
    COLLECTORS.append(collector)


def collect(hold: Hold, *, dry_run: bool = False) -> list[str]:
    """Archive expired memories and free their titles.

    Expiry is evaluated on read, so this is local housekeeping: it is neither journalled nor replicated.
    """
    if dry_run:
        with hold.reading() as session:
            return [row[0] for row in session.rows("memory_expired", now=hold.now(), limit=1_000_000)]
    for prepare in BEFORE_COLLECTING:
        prepare(hold)
    collected: list[str] = []
    while True:
        with hold.writing() as write:
            batch = write.session.rows("memory_release", now=write.now, limit=BATCH)
            write.expired([*(row[0] for row in batch), *_outlived(write)])
            for collector in COLLECTORS:
                collector(hold, write)
        collected += [row[0] for row in batch]
        hold.progress(len(collected), len(collected), "collecting")
        if len(batch) < BATCH:
            return collected


def _outlived(write: Transaction) -> list[str]:
    """Ids of title-group representatives that expired while other members of the group are live."""
    standing = [row[0] for row in write.session.rows("title_standing")]
    if not standing:
        return []
    return title_groups.outlived(write, standing)


def purge(hold: Hold, ids: list[str] | None, older_than_days: int | None) -> Gone:
    """Erase archived memories and their history permanently; the id and state remain."""
    with hold.writing() as write:
        before = write.now - door.days("older_than_days", older_than_days or 0)
        selected = None if ids is None else [_put_away(hold, write, id).id for id in ids]
        found = memories.put_away_before(write.session, hold.caller, write.now, before, selected)
        purged, skipped = _allowed(hold, write, found)
        for memory in purged:
            erase(write, memory)
        if purged:
            consulted.forget(write.session)
            write.session.forget_words()
    return Gone([memory.id for memory in purged], skipped)


def erase(
    write: Transaction, memory: Memory, left: Memory | None = None, taken: Mapping[str, int] | None = None
) -> None:
    """Erase a memory, its aliases and its notices; leave a tombstone, or the record `left`."""
    for alias in [ALIAS.load(row) for row in write.session.rows("alias_ever", entity=memory.id)]:
        write.purge(ALIAS, alias)
    for invalidation in [
        INVALIDATION.load(row) for row in write.session.rows("invalidation_ever", dependent=memory.id)
    ]:
        write.purge(INVALIDATION, invalidation)
    write.purge(MEMORY, memory, left, taken)
