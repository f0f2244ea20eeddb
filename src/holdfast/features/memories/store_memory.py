"""Store a memory: durable, searchable and journalled on return."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.features.embeddings import store as embedding_store
from holdfast.features.memories import dedup
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import check_scope_change
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, HoldfastError, StoreError, TitleTaken
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import MEMORY_MERGE_SCHEMA, Memory, OnConflict, Tier, higher_tier
from holdfast.kernel.records.validate import Draft, check_memory, declared_scope, memory_from_draft
from holdfast.kernel.vector import Embedding

MAX_VERSIONS = 1024

GIVEN_FIELDS = {"confidence", *MEMORY_MERGE_SCHEMA.conflict_fields} - {"namespace", "title", "content", "state"}
"""Fields that a merge changes only if they were given."""
Outcome = Literal["created", "merged", "unchanged", "restated", "recalled"]
"""created, merged, unchanged (same title and text), restated (another title), recalled (echo of a recent recall)."""


class RememberResult(NamedTuple):
    """The outcome of storing a draft. For a duplicate, `memory` is the existing one."""

    memory: Memory
    outcome: Outcome
    similar: tuple[dedup.Similar, ...] = ()
    """Similar memories; for an echo, every memory it repeats."""
    secrets: dedup.SecretsFound = dedup.SecretsFound()
    """The secrets found in the draft."""


def remember(
    ctx: Context,
    draft: Draft,
    on_conflict: OnConflict = "merge",
    embedding: Embedding | None = None,
    *,
    force: bool = False,
) -> RememberResult:
    """Store one memory. `on_conflict` decides whether a taken title is an error, a merge or a numbered copy."""
    with ctx.transaction() as write:
        return store_draft(ctx, write, draft, on_conflict, embedding, force=force)


def remember_all(
    ctx: Context, drafts: Sequence[Callable[[], tuple[Draft, OnConflict, Embedding | None, bool]]]
) -> list[RememberResult | HoldfastError]:
    """Store many memories in one transaction; each succeeds or fails on its own."""
    outcomes: list[RememberResult | HoldfastError] = []
    with ctx.transaction() as write:
        for number, build_draft in enumerate(drafts):
            ctx.progress(number, len(drafts), "storing")
            try:
                draft, on_conflict, embedding, force = build_draft()
                outcomes.append(store_draft(ctx, write, draft, on_conflict, embedding, force=force))
            except StoreError:
                raise
            except HoldfastError as error:
                outcomes.append(error)
    return outcomes


def store_draft(
    ctx: Context,
    write: Transaction,
    draft: Draft,
    on_conflict: OnConflict,
    embedding: Embedding | None = None,
    *,
    force: bool = False,
    imported: bool = False,
) -> RememberResult:
    """Store one memory inside a transaction. Raises before it writes, so a rejected item leaves no trace.

    A duplicate is counted instead of stored unless forced. The secret policy cannot be overridden; imported drafts
    have passed it already.
    """
    if embedding is not None:
        embedding_store.check_model_dimension(write.session, embedding)
    draft, secrets = (draft, dedup.SecretsFound()) if imported else dedup.filter_draft_secrets(write.session, draft)
    remembered = _store_draft(ctx, write, draft, on_conflict, force=force or imported, imported=imported)
    if embedding is not None and remembered.outcome not in ("restated", "recalled"):
        embedding_store.put_embedding(write.session, remembered.memory, embedding, write.now)
    return remembered._replace(secrets=secrets) if secrets.kinds else remembered


def _store_draft(
    ctx: Context, write: Transaction, draft: Draft, on_conflict: OnConflict, *, force: bool, imported: bool
) -> RememberResult:
    memory = memory_from_draft(
        draft,
        id=ctx.new_id(),
        agent=ctx.caller.agent,
        origin=write.origin,
        now=write.now,
        lifetimes=ctx.lifetimes,
        default_tier=ctx.default_tier,
        imported=imported,
    )
    ctx.caller.require_access(memory.namespace)
    holder = find_title_holder(write, memory.namespace, memory.title)
    if holder is None:
        return _store_new(ctx, write, memory, force=force)
    if on_conflict == "version":
        return RememberResult(write.add(MEMORY, replace(memory, title=_free_title(write, memory)), "store"), "created")
    if not memories.can_write(write.session, ctx.caller, holder.id):
        raise TitleTaken(f"The title {memory.title!r} is taken in {memory.namespace!r}.")
    if on_conflict == "error":
        raise TitleTaken(
            f"The title {memory.title!r} is taken in {memory.namespace!r} by {holder.id}: "
            "update that one, or store with on_conflict merge or version.",
            existing_id=holder.id,
        )
    merged = _merge(ctx, holder, draft, memory)
    check_scope_change(ctx, write, holder, merged)
    if not force and dedup.is_same_text(holder, memory):
        dedup.increment_duplicate_count(write, holder)
    merged = write.change(MEMORY, holder, merged, "merge")
    return RememberResult(merged, "unchanged" if merged.version == holder.version else "merged")


def _store_new(ctx: Context, write: Transaction, memory: Memory, *, force: bool) -> RememberResult:
    """Store a memory under a free title, unless it duplicates an existing one."""
    seen = dedup.DedupResult() if force else dedup.find_duplicates(ctx, write, memory)
    if seen.outcome is None:
        return RememberResult(write.add(MEMORY, memory, "store"), "created", seen.similar)
    existing = seen.similar[0].memory
    dedup.record_duplicate(write, existing, memory)
    return RememberResult(existing, seen.outcome, seen.similar)


def find_title_holder(write: Transaction, namespace: str, title: str) -> Memory | None:
    """Find the memory with a title. If it has expired, release the title and return None."""
    holder = memories.find_by_title(write.session, namespace, title)
    if holder is None or holder.expires_at is None:
        return holder
    expired = write.session.row("memory_has_expired", id=holder.id, now=write.now)
    if expired is None:
        return holder
    write.session.do("memory_collect_one", id=holder.id, now=write.now)
    write.expire([holder.id])
    return None


def require_free_title(ctx: Context, write: Transaction, memory: Memory) -> None:
    """Raise if another memory has this title; the error names it only if the caller may see it."""
    holder = find_title_holder(write, memory.namespace, memory.title)
    if holder is None or holder.id == memory.id:
        return
    message = f"The title {memory.title!r} is taken in {memory.namespace!r}"
    if memories.by_ids(write.session, ctx.caller, [holder.id], write.now):
        raise TitleTaken(f"{message} by {holder.id}.", existing_id=holder.id)
    raise TitleTaken(f"{message}.")


def number_title(title: str, number: int) -> str:
    """Append a number to a title, truncating the title if needed."""
    ending = f" ({number})"
    room = validate.MAX_BYTES["title"] - len(ending)
    return validate.title(title.encode()[:room].decode(errors="ignore") + ending)


def _free_title(write: Transaction, memory: Memory) -> str:
    for number in range(2, MAX_VERSIONS + 1):
        title = number_title(memory.title, number)
        if find_title_holder(write, memory.namespace, title) is None:
            return title
    raise Conflict(f"{memory.title!r} already has {MAX_VERSIONS} versions: choose another title.")


def _merge(ctx: Context, holder: Memory, draft: Draft, admitted: Memory) -> Memory:
    """Merge a new memory into the one that has its title.

    The content is replaced, tags are united, metadata merge by key; tier, priority and expiry only increase; other
    fields change if given. Owner and source stay.
    """
    given = {
        name: getattr(admitted, name)
        for name in GIVEN_FIELDS
        if getattr(draft, name) is not UNSET or (name == "scope" and declared_scope(draft.metadata))
    }
    tier = higher_tier(holder.tier, admitted.tier) if draft.tier is not UNSET else holder.tier
    merged = replace(
        holder,
        content=admitted.content,
        tags=validate.tags((*holder.tags, *admitted.tags)),
        metadata=validate.metadata({**holder.metadata, **admitted.metadata}),
        priority=holder.priority if draft.priority is UNSET else max(holder.priority, admitted.priority),
        tier=tier,
        expires_at=_merged_expiry(ctx, holder, draft, admitted, tier),
        **given,
    )
    return check_memory(merged)


def _merged_expiry(ctx: Context, holder: Memory, draft: Draft, admitted: Memory, tier: Tier) -> int | None:
    """The given expiry, or the tier's, but never earlier than the current one."""
    if holder.expires_at is None:
        return None
    given = draft.ttl_secs is not None or draft.expires_at is not UNSET
    end = admitted.expires_at if given else ctx.lifetimes.expiry(tier, admitted.created_at)
    return None if end is None else max(holder.expires_at, end)
