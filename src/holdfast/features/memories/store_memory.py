"""Keep a memory: durable, findable and journalled when this returns."""

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
"""What storing onto a taken title changes only if it was given."""
Outcome = Literal["created", "merged", "unchanged", "restated", "recalled"]
"""Kept, kept in an older one, or there already: under that title, under another, or as what was just recalled."""


class Remembered(NamedTuple):
    """What became of a draft. If it was there already, the memory is the one that says it."""

    memory: Memory
    outcome: Outcome
    similar: tuple[hygiene.Similar, ...] = ()
    """What says nearly the same, or something else of the same; of what was recalled, all that it repeats."""
    secrets: hygiene.Found = hygiene.Found()
    """What sorts of secrets were given."""


def remember(
    hold: Hold,
    draft: Draft,
    on_conflict: OnConflict = "merge",
    embedding: Embedding | None = None,
    *,
    force: bool = False,
) -> Remembered:
    """Keep one memory. A taken title is an error, is merged into, or makes a numbered one, as asked."""
    with hold.writing() as write:
        return put(hold, write, draft, on_conflict, embedding, force=force)


def remember_all(
    hold: Hold, drafts: Sequence[Callable[[], tuple[Draft, OnConflict, Embedding | None, bool]]]
) -> list[Remembered | HoldfastError]:
    """Keep many in one transaction; each has an outcome of its own, and a rejected one leaves the others be."""
    outcomes: list[Remembered | HoldfastError] = []
    with hold.writing() as write:
        for number, drafted in enumerate(drafts):
            hold.progress(number, len(drafts), "storing")
            try:
                draft, on_conflict, embedding, force = drafted()
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
    """Keep one memory inside a transaction. Raises before it writes, so that a rejected item leaves nothing.

    What says nothing new is counted instead, unless it is forced; the policy on secrets cannot be forced. What is
    imported went by that policy already.
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
    """Keep a memory that says something new; of another it is told who said it before."""
    seen = hygiene.Seen() if force else hygiene.look(hold, write, memory)
    if seen.outcome is None:
        return Remembered(write.add(MEMORY, memory, "store"), "created", seen.similar)
    said = seen.similar[0].memory
    hygiene.restated(write, said, memory)
    return Remembered(said, seen.outcome, seen.similar)


def title_holder(write: Transaction, namespace: str, title: str) -> Memory | None:
    """Who holds a title. An expired holder lets go of it: nobody sees it any more."""
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
    """Raise if another memory holds this one's title; which one is told only to those who may see it."""
    holder = title_holder(write, memory.namespace, memory.title)
    if holder is None or holder.id == memory.id:
        return
    taken = f"The title {memory.title!r} is taken in {memory.namespace!r}"
    if memories.by_ids(write.session, hold.caller, [holder.id], write.now):
        raise TitleTaken(f"{taken} by {holder.id}.", existing_id=holder.id)
    raise TitleTaken(f"{taken}.")


def must_change(hold: Hold, write: Transaction, memory: Memory) -> None:
    if not memories.may_change(write.session, hold.caller, memory.id):
        raise Forbidden(f"The memory {memory.id} is another agent's: ask for a write grant.")


def must_decide(hold: Hold, write: Transaction, memory: Memory) -> None:
    """Raise unless the caller decides who may see a memory: its owner, or an agent with an admin grant."""
    if memory.agent != hold.caller.agent:
        own = write.get(GRANT, ids.derived("grant", memory.id, hold.caller.agent))
        if own is None or own.state != "live" or own.permission != "admin":
            raise Forbidden(f"Only the owner of {memory.id} decides who may see it.")


def must_agree(hold: Hold, write: Transaction, before: Memory, after: Memory) -> None:
    """Raise if a change would publish or hide a memory and the caller does not decide on that."""
    if before.scope != after.scope and "private" in (before.scope, after.scope):
        must_decide(hold, write, before)


def numbered(title: str, number: int) -> str:
    """A title with a number behind it, shortened if it would be too long."""
    ending = f" ({number})"
    room = door.MOST_BYTES["title"] - len(ending)
    return door.title(title.encode()[:room].decode(errors="ignore") + ending)


def _free_title(write: Transaction, memory: Memory) -> str:
    for number in range(2, MOST_VERSIONS + 1):
        title = numbered(memory.title, number)
        if title_holder(write, memory.namespace, title) is None:
            return title
    raise Conflict(f"There are {MOST_VERSIONS} versions of {memory.title!r} already.")


def _merged(hold: Hold, holder: Memory, draft: Draft, admitted: Memory) -> Memory:
    """What storing onto a taken title makes of its holder.

    The new content replaces the old; tags unite; metadata merge key by key; the tier, the priority and the lifetime
    only rise; other fields change if they were given. The owner and the source stay.
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
    """The given end or that of the tier, but never an earlier one than it has."""
    if holder.expires_at is None:
        return None
    given = draft.ttl_secs is not None or draft.expires_at is not UNSET
    end = admitted.expires_at if given else hold.lifetimes.expiry(tier, admitted.created_at)
    return None if end is None else max(holder.expires_at, end)
