"""Store a memory: durable, searchable and journalled on return."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.features.access.model import GRANT
from holdfast.features.embeddings import store as vectors
from holdfast.features.memories import dedup as hygiene
from holdfast.features.memories import store as memories
from holdfast.kernel import ids
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict, Forbidden, HoldfastError, StoreError, TitleTaken
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import MEMORY_SHAPE, Memory, OnConflict, Tier, higher
from holdfast.kernel.records.validate import Draft, admit, check, declared_scope
from holdfast.kernel.vector import Embedding

MOST_VERSIONS = 1024

GIVEN = {"confidence", *MEMORY_SHAPE.registers} - {"namespace", "title", "content", "state"}
"""Fields that a merge changes only if they were given."""
Outcome = Literal["created", "merged", "unchanged", "restated", "recalled"]
"""created, merged, unchanged (same title and text), restated (another title), recalled (echo of a recent recall)."""


class Remembered(NamedTuple):
    """The outcome of storing a draft. For a duplicate, `memory` is the existing one."""

    memory: Memory
    outcome: Outcome
    similar: tuple[hygiene.Similar, ...] = ()
    """Similar memories; for an echo, every memory it repeats."""
    secrets: hygiene.Found = hygiene.Found()
    """The secrets found in the draft."""


def remember(
    hold: Hold,
    draft: Draft,
    on_conflict: OnConflict = "merge",
    embedding: Embedding | None = None,
    *,
    force: bool = False,
) -> Remembered:
    """Store one memory. `on_conflict` decides whether a taken title is an error, a merge or a numbered copy."""
    with hold.writing() as write:
        return put(hold, write, draft, on_conflict, embedding, force=force)


def remember_all(
    hold: Hold, drafts: Sequence[Callable[[], tuple[Draft, OnConflict, Embedding | None, bool]]]
) -> list[Remembered | HoldfastError]:
    """Store many memories in one transaction; each succeeds or fails on its own."""
    outcomes: list[Remembered | HoldfastError] = []
    with hold.writing() as write:
        for number, build_draft in enumerate(drafts):
            hold.progress(number, len(drafts), "storing")
            try:
                draft, on_conflict, embedding, force = build_draft()
                outcomes.append(put(hold, write, draft, on_conflict, embedding, force=force))
            except StoreError:
                raise
            except HoldfastError as error:
                outcomes.append(error)
    return outcomes


def put(
    hold: Hold,
    write: Transaction,
    draft: Draft,
    on_conflict: OnConflict,
    embedding: Embedding | None = None,
    *,
    force: bool = False,
    imported: bool = False,
) -> Remembered:
    """Store one memory inside a transaction. Raises before it writes, so a rejected item leaves no trace.

    A duplicate is counted instead of stored unless forced. The secret policy cannot be overridden; imported drafts
    have passed it already.
    """
    if embedding is not None:
        vectors.check(write.session, embedding)
    draft, secrets = (draft, hygiene.Found()) if imported else hygiene.without_secrets(write.session, draft)
    remembered = _put(hold, write, draft, on_conflict, force=force or imported, imported=imported)
    if embedding is not None and remembered.outcome not in ("restated", "recalled"):
        vectors.put(write.session, remembered.memory, embedding, write.now)
    return remembered._replace(secrets=secrets) if secrets.kinds else remembered


def _put(
    hold: Hold, write: Transaction, draft: Draft, on_conflict: OnConflict, *, force: bool, imported: bool
) -> Remembered:
    memory = admit(
        draft,
        id=hold.new_id(),
        agent=hold.caller.agent,
        origin=write.origin,
        now=write.now,
        lifetimes=hold.lifetimes,
        default_tier=hold.default_tier,
        imported=imported,
    )
    hold.caller.must_reach(memory.namespace)
    holder = title_holder(write, memory.namespace, memory.title)
    if holder is None:
        return _add(hold, write, memory, force=force)
    if on_conflict == "version":
        return Remembered(write.add(MEMORY, replace(memory, title=_free_title(write, memory)), "store"), "created")
    if not memories.may_change(write.session, hold.caller, holder.id):
        raise TitleTaken(f"The title {memory.title!r} is taken in {memory.namespace!r}.")
    if on_conflict == "error":
        raise TitleTaken(
            f"The title {memory.title!r} is taken in {memory.namespace!r} by {holder.id}: "
            "update that one, or store with on_conflict merge or version.",
            existing_id=holder.id,
        )
    merged = _merged(hold, holder, draft, memory)
    must_agree(hold, write, holder, merged)
    if not force and hygiene.says_again(holder, memory):
        hygiene.count(write, holder)
    merged = write.change(MEMORY, holder, merged, "merge")
    return Remembered(merged, "unchanged" if merged.version == holder.version else "merged")


def _add(hold: Hold, write: Transaction, memory: Memory, *, force: bool) -> Remembered:
    """Store a memory under a free title, unless it duplicates an existing one."""
    seen = hygiene.Seen() if force else hygiene.look(hold, write, memory)
    if seen.outcome is None:
        return Remembered(write.add(MEMORY, memory, "store"), "created", seen.similar)
    existing = seen.similar[0].memory
    hygiene.restated(write, existing, memory)
    return Remembered(existing, seen.outcome, seen.similar)


def title_holder(write: Transaction, namespace: str, title: str) -> Memory | None:
    """Find the memory with a title. If it has expired, release the title and return None."""
    holder = memories.holder(write.session, namespace, title)
    if holder is None or holder.expires_at is None:
        return holder
    expired = write.session.row("memory_has_expired", id=holder.id, now=write.now)
    if expired is None:
        return holder
    write.session.do("memory_release_one", id=holder.id, now=write.now)
    write.expired([holder.id])
    return None


def must_be_free(hold: Hold, write: Transaction, memory: Memory) -> None:
    """Raise if another memory has this title; the error names it only if the caller may see it."""
    holder = title_holder(write, memory.namespace, memory.title)
    if holder is None or holder.id == memory.id:
        return
    message = f"The title {memory.title!r} is taken in {memory.namespace!r}"
    if memories.by_ids(write.session, hold.caller, [holder.id], write.now):
        raise TitleTaken(f"{message} by {holder.id}.", existing_id=holder.id)
    raise TitleTaken(f"{message}.")


def must_change(hold: Hold, write: Transaction, memory: Memory) -> None:
    if not memories.may_change(write.session, hold.caller, memory.id):
        raise Forbidden(f"The memory {memory.id} belongs to another agent: ask its owner for a write grant.")


def must_decide(hold: Hold, write: Transaction, memory: Memory) -> None:
    """Raise unless the caller owns the memory or has an admin grant on it."""
    if memory.agent != hold.caller.agent:
        own = write.get(GRANT, ids.derived("grant", memory.id, hold.caller.agent))
        if own is None or own.state != "live" or own.permission != "admin":
            raise Forbidden(f"Only the owner of {memory.id} can change who may see it.")


def must_agree(hold: Hold, write: Transaction, before: Memory, after: Memory) -> None:
    """Raise if a change makes a memory private or public without ownership of it."""
    if before.scope != after.scope and "private" in (before.scope, after.scope):
        must_decide(hold, write, before)


def numbered(title: str, number: int) -> str:
    """Append a number to a title, truncating the title if needed."""
    ending = f" ({number})"
    room = door.MOST_BYTES["title"] - len(ending)
    return door.title(title.encode()[:room].decode(errors="ignore") + ending)


def _free_title(write: Transaction, memory: Memory) -> str:
    for number in range(2, MOST_VERSIONS + 1):
        title = numbered(memory.title, number)
        if title_holder(write, memory.namespace, title) is None:
            return title
    raise Conflict(f"{memory.title!r} already has {MOST_VERSIONS} versions: choose another title.")


def _merged(hold: Hold, holder: Memory, draft: Draft, admitted: Memory) -> Memory:
    """Merge a new memory into the one that has its title.

    The content is replaced, tags are united, metadata merge by key; tier, priority and expiry only increase; other
    fields change if given. Owner and source stay.
    """
    given = {
        name: getattr(admitted, name)
        for name in GIVEN
        if getattr(draft, name) is not UNSET or (name == "scope" and declared_scope(draft.metadata))
    }
    tier = higher(holder.tier, admitted.tier) if draft.tier is not UNSET else holder.tier
    merged = replace(
        holder,
        content=admitted.content,
        tags=door.tags((*holder.tags, *admitted.tags)),
        metadata=door.metadata({**holder.metadata, **admitted.metadata}),
        priority=holder.priority if draft.priority is UNSET else max(holder.priority, admitted.priority),
        tier=tier,
        expires_at=_later_end(hold, holder, draft, admitted, tier),
        **given,
    )
    return check(merged)


def _later_end(hold: Hold, holder: Memory, draft: Draft, admitted: Memory, tier: Tier) -> int | None:
    """The given expiry, or the tier's, but never earlier than the current one."""
    if holder.expires_at is None:
        return None
    given = draft.ttl_secs is not None or draft.expires_at is not UNSET
    end = admitted.expires_at if given else hold.lifetimes.expiry(tier, admitted.created_at)
    return None if end is None else max(holder.expires_at, end)
