"""Archive, restore, delete, forget, collect and purge memories."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.graph.model import ALIAS
from holdfast.features.llm import store as llm_store
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter, normalize_filter, require_write_access
from holdfast.features.memories.store_memory import require_free_title
from holdfast.features.memories.update_memory import check_version
from holdfast.features.reflections.invalidation import INVALIDATION
from holdfast.kernel.context import Context
from holdfast.kernel.errors import HoldfastError, StoreError
from holdfast.kernel.journal import title_groups
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.text.words import query_words

BATCH = 1000


class ArchiveBatch(NamedTuple):
    """The outcome of archiving several memories."""

    archived: list[Memory]
    refused: list[tuple[str, HoldfastError]]


def delete(ctx: Context, id: str, expected_version: int | None = None) -> Memory:
    """Delete a memory. Its history remains; `undo` restores it."""
    with ctx.transaction() as write:
        memory = memories.resolve(write.session, ctx.caller, id, write.now, view="kept")
        require_write_access(ctx, write, memory)
        check_version(memory, expected_version)
        return write.change(MEMORY, memory, replace(memory, state="deleted"), "delete")


def archive(ctx: Context, ids: list[str], reason: str) -> ArchiveBatch:
    """Archive memories with their links; each succeeds or fails on its own."""
    validate.label("reason", reason)
    result = ArchiveBatch([], [])
    with ctx.transaction() as write:
        for id in dict.fromkeys(ids):
            try:
                memory = memories.resolve(write.session, ctx.caller, id, write.now)
                require_write_access(ctx, write, memory)
                result.archived.append(archive_memory(write, memory, reason, "archive"))
            except StoreError:
                raise
            except HoldfastError as error:
                result.refused.append((id, error))
    return result


def archive_memory(write: Transaction, memory: Memory, reason: str, op: str) -> Memory:
    return write.change(MEMORY, memory, replace(memory, state="archived", reason=reason), op)


def restore(ctx: Context, id: str) -> Memory:
    """Restore an archived or expired memory and restart its lifetime."""
    with ctx.transaction() as write:
        memory = _resolve_archived(ctx, write, id)
        require_write_access(ctx, write, memory)
        require_free_title(ctx, write, memory)
        return restore_memory(ctx, write, memory)


def restore_memory(ctx: Context, write: Transaction, memory: Memory) -> Memory:
    live = replace(memory, state="live", reason=None, expires_at=_restored_expiry(ctx, memory, write.now))
    return write.change(MEMORY, memory, live, "restore")


def _resolve_archived(ctx: Context, write: Transaction, id: str) -> Memory:
    return memories.resolve(write.session, ctx.caller, id, write.now, view="archived")


def _restored_expiry(ctx: Context, memory: Memory, now: int) -> int | None:
    if memory.expires_at is None:
        return None
    end = ctx.lifetimes.expiry(memory.tier, now)
    if end is None:
        return memory.expires_at if memory.expires_at > now else None
    return max(end, memory.expires_at)


class BulkResult(NamedTuple):
    """Ids that a bulk change affected, and ids that it skipped for lack of write access."""

    ids: list[str]
    kept: list[str]


def forget(ctx: Context, which: Filter, pattern: str | None, *, dry_run: bool) -> BulkResult:
    """Archive every writable memory that matches a filter and contains any word of a pattern."""
    with ctx.transaction() as write:
        found, skipped = _split_writable(ctx, write, _find_matching(ctx, write, which, pattern))
        for number, memory in enumerate(found):
            ctx.progress(number, len(found), "forgetting")
            if not dry_run:
                archive_memory(write, memory, "forget", "forget")
    return BulkResult([memory.id for memory in found], skipped)


def _split_writable(ctx: Context, write: Transaction, found: list[Memory]) -> tuple[list[Memory], list[str]]:
    """Split memories into those the caller may change and the ids of the others."""
    may = {memory.id for memory in found if memories.can_write(write.session, ctx.caller, memory.id)}
    return [memory for memory in found if memory.id in may], [memory.id for memory in found if memory.id not in may]


def _find_matching(ctx: Context, write: Transaction, which: Filter, pattern: str | None) -> list[Memory]:
    session = write.session
    everything = memories.count(session, ctx.caller, normalize_filter(which), write.now)
    if pattern is None:
        return memories.select(session, ctx.caller, which, write.now, order="by_creation", limit=everything)
    words = query_words(pattern)
    if not words:
        return []
    hits = memories.search_words(session, ctx.caller, words, which, write.now, limit=everything)
    found = memories.by_ids(session, ctx.caller, [hit.id for hit in hits], write.now).values()
    return sorted(found, key=lambda memory: (memory.created_at, memory.id))


BEFORE_COLLECTING: list[Callable[[Context], None]] = []
COLLECTORS: list[Callable[[Context, Transaction], None]] = []


def before_collecting(prepare: Callable[[Context], None]) -> None:
    """Register a function to call before expired memories are collected, outside the transaction."""
    BEFORE_COLLECTING.append(prepare)


def on_collect(collector: Callable[[Context, Transaction], None]) -> None:
    """Register a function to call in each collecting transaction, so that features can drop expired rows."""
    COLLECTORS.append(collector)


def collect_expired_memories(ctx: Context, *, dry_run: bool = False) -> list[str]:
    """Archive expired memories and free their titles.

    Expiry is evaluated on read, so this is local housekeeping: it is neither journalled nor replicated.
    """
    if dry_run:
        with ctx.reading() as session:
            return [row[0] for row in session.rows("memory_expired", now=ctx.now(), limit=1_000_000)]
    for prepare in BEFORE_COLLECTING:
        prepare(ctx)
    collected: list[str] = []
    while True:
        with ctx.transaction() as write:
            batch = write.session.rows("memory_collect", now=write.now, limit=BATCH)
            write.expire([*(row[0] for row in batch), *_list_outlived(write)])
            for collector in COLLECTORS:
                collector(ctx, write)
        collected += [row[0] for row in batch]
        ctx.progress(len(collected), len(collected), "collecting")
        if len(batch) < BATCH:
            return collected


def _list_outlived(write: Transaction) -> list[str]:
    """Ids of title-group representatives that expired while other members of the group are live."""
    standing = [row[0] for row in write.session.rows("title_representatives")]
    if not standing:
        return []
    return title_groups.expired_representatives(write, standing)


def purge(ctx: Context, ids: list[str] | None, older_than_days: int | None) -> BulkResult:
    """Erase archived memories and their history permanently; the id and state remain."""
    with ctx.transaction() as write:
        before = write.now - validate.days("older_than_days", older_than_days or 0)
        selected = None if ids is None else [_resolve_archived(ctx, write, id).id for id in ids]
        found = memories.list_archived_before(write.session, ctx.caller, write.now, before, selected)
        purged, skipped = _split_writable(ctx, write, found)
        for memory in purged:
            purge_memory(write, memory)
        if purged:
            llm_store.clear_answers(write.session)
            write.session.purge_index()
    return BulkResult([memory.id for memory in purged], skipped)


def purge_memory(
    write: Transaction, memory: Memory, left: Memory | None = None, taken: Mapping[str, int] | None = None
) -> None:
    """Erase a memory, its aliases and its notices; leave a tombstone, or the record `left`."""
    for alias in [ALIAS.load(row) for row in write.session.rows("alias_with_deleted", entity=memory.id)]:
        write.purge(ALIAS, alias)
    for invalidation in [
        INVALIDATION.load(row) for row in write.session.rows("invalidation_ever", dependent=memory.id)
    ]:
        write.purge(INVALIDATION, invalidation)
    write.purge(MEMORY, memory, left, taken)
