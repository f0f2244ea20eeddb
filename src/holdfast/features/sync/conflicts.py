"""Show conflicts between concurrent edits and resolve them."""

from typing import Any, Literal

from msgspec.structs import astuple, replace

from holdfast.features.memories.read_memories import find_namespaces, require_write_access
from holdfast.features.memories.store_memory import find_title_holder, number_title, require_free_title
from holdfast.features.sync import conflict_store
from holdfast.features.sync.conflict_store import Conflict, ConflictSide
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal import journal, title_groups
from holdfast.kernel.journal.kinds import LINK, MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.merge import Resolution
from holdfast.kernel.registry.stages import StageEffects
from holdfast.kernel.storage.port import Session


class ConflictDetails(Conflict, frozen=True, kw_only=True):
    """Two concurrent values of a field: one is shown, the other is kept."""

    shown: ConflictSide
    other: ConflictSide
    mine: Literal["shown", "other"] | None = None
    """The value that this store wrote, if it wrote exactly one."""


def list_conflicts(ctx: Context, session: Session, *, limit: int, skip: int) -> tuple[list[ConflictDetails], int]:
    page, total = conflict_store.list_conflicts(session, ctx.caller, limit=limit, skip=skip)
    return [_load_details(ctx, session, one) for one in page], total


def get_conflict(ctx: Context, session: Session, id: str) -> ConflictDetails:
    return _load_details(ctx, session, conflict_store.get_conflict(session, ctx.caller, id))


def _load_details(ctx: Context, session: Session, conflict: Conflict) -> ConflictDetails:
    sides = conflict_store.get_sides(session, ctx.caller, conflict)
    node = journal.get_head(session).node
    own = [side.stamp.origin.partition(".")[0] == node for side in sides]
    mine: Literal["shown", "other"] = "shown" if own[0] else "other"
    return ConflictDetails(*astuple(conflict), shown=sides[0], other=sides[1], mine=None if own[0] == own[1] else mine)


def resolve_conflict(ctx: Context, id: str, keep: Resolution, value: Any = None) -> tuple[ConflictDetails, str | None]:
    """Resolve a conflict. With keep `both`, the other value gets its own memory, whose id is returned."""
    if value is not None and keep != "edited":
        raise Invalid("value: only allowed with keep edited", fields=["keep", "value"])
    with ctx.transaction() as write:
        details = _load_details(ctx, write.session, conflict_store.get_conflict(write.session, ctx.caller, id))
        memory = write.get(MEMORY, details.about)
        assert memory is not None
        require_write_access(ctx, write, memory)
        if keep == "both":
            return details, _keep_both(ctx, write, details)
        conflict_store.resolve_conflict(write, details, _choose_value(details, keep, value))
    return details, None


def get_resolve_parts(ctx: Context, id: str, keep: Resolution, value: Any = None) -> StageEffects:
    """Describe a resolution for lifecycle hooks: what it stores, deletes or links."""
    with ctx.reading() as session:
        conflict = get_conflict(ctx, session, id)
        places = [conflict.namespace]
        if conflict.kind == LINK.name and (row := session.row("link_get", id=conflict.record)):
            link = LINK.load(row)
            places += find_namespaces(ctx, session, [link.source, link.target])
    if conflict.kind != MEMORY.name:
        return StageEffects().add("link", places) if conflict.kind == LINK.name else StageEffects()
    if keep == "both":
        return StageEffects().add("store", places, {"id": conflict.other.record, conflict.cell: conflict.other.value})
    stands = _choose_value(conflict, keep, value)
    if (conflict.cell, stands) == ("state", "deleted"):
        return StageEffects().add("delete", places)
    moved = [stands] if conflict.cell == "namespace" else []
    return StageEffects().add("store", [*places, *moved], {"id": conflict.about, conflict.cell: stands})


def _choose_value(conflict: ConflictDetails, keep: Resolution, value: Any) -> Any:
    if keep == "edited":
        if conflict.cell not in ("content", "title") or not isinstance(value, str):
            raise Invalid("value: keep edited needs a text, and a conflict of content or title", fields=["value"])
        return validate.content(value) if conflict.cell == "content" else validate.title(value)
    if keep in ("mine", "theirs"):
        if conflict.mine is None:
            raise Invalid("keep: this store wrote both values or neither: use shown or other", fields=["keep"])
        keep = conflict.mine if keep == "mine" else "other" if conflict.mine == "shown" else "shown"
    return (conflict.shown if keep == "shown" else conflict.other).value


def _keep_both(ctx: Context, write: Transaction, conflict: ConflictDetails) -> str:
    """Give the other content its own memory: its existing record if it has one, else a new memory."""
    lost = conflict.other
    if conflict.kind != "memory" or conflict.cell != "content":
        raise Invalid("keep: both is only possible for two contents of a memory", fields=["keep"])
    together = conflict_store.list_title_group(write, conflict)
    (own,) = [member.own_record for member in title_groups.load_members(write, [lost.record])]
    title = _find_free_title(write, own.namespace, own.title)
    if conflict.shown.record != lost.record and own.content == lost.value:
        title_groups.rename_member(write, lost.record, title, "resolve")
        conflict_store.drop_value(write, [id for id in together if id != lost.record], conflict.cell, lost.value)
        return lost.record
    copy = _copy_memory(ctx, write, own, title, lost.value)
    conflict_store.drop_value(write, together, conflict.cell, lost.value)
    return copy.id


def _copy_memory(ctx: Context, write: Transaction, memory: Memory, title: str, content: str) -> Memory:
    """Add a copy of a memory with its own title and content, owned by the caller."""
    copy = replace(
        memory,
        id=ctx.new_id(),
        title=title,
        content=content,
        agent=ctx.caller.agent,
        origin=write.origin,
        created_at=write.now,
        updated_at=write.now,
        version=1,
        extra={},
    )
    require_free_title(ctx, write, copy)
    return write.add(MEMORY, copy, "resolve")


def _find_free_title(write: Transaction, namespace: str, title: str) -> str:
    number = 2
    while find_title_holder(write, namespace, number_title(title, number)) is not None:
        number += 1
    return number_title(title, number)
