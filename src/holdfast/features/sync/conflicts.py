"""Show conflicts between concurrent edits and resolve them."""

from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from holdfast.features.history.service import places_of
from holdfast.features.memories.store_memory import must_be_free, must_change, numbered, title_holder
from holdfast.features.sync import conflict_store as conflicts
from holdfast.features.sync.conflict_store import Conflict, Sides
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal import journal
from holdfast.kernel.journal import title_groups as titles
from holdfast.kernel.journal.kinds import LINK, MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.merge import Keep
from holdfast.kernel.registry.stages import Parts
from holdfast.kernel.storage.port import Session


class Shown(NamedTuple):
    conflict: Conflict
    sides: Sides
    mine: Literal["shown", "other"] | None
    """The value that this store wrote, if it wrote exactly one."""


def browse(hold: Hold, session: Session, *, limit: int, skip: int) -> tuple[list[Shown], int]:
    found, total = conflicts.page(session, hold.caller, limit=limit, skip=skip)
    return [_shown(hold, session, one) for one in found], total


def show(hold: Hold, session: Session, id: str) -> Shown:
    return _shown(hold, session, conflicts.one(session, hold.caller, id))


def _shown(hold: Hold, session: Session, conflict: Conflict) -> Shown:
    sides = conflicts.sides(session, hold.caller, conflict)
    node = journal.head_of(session).node
    own = [side.stamp.origin.partition(".")[0] == node for side in sides]
    return Shown(conflict, sides, None if own[0] == own[1] else "shown" if own[0] else "other")


def resolve(hold: Hold, id: str, keep: Keep, value: Any = None) -> tuple[Conflict, str | None]:
    """Resolve a conflict. With keep `both`, the other value gets its own memory, whose id is returned."""
    if value is not None and keep != "edited":
        raise Invalid("value: only allowed with keep edited", fields=["keep", "value"])
    with hold.writing() as write:
        shown = _shown(hold, write.session, conflicts.one(write.session, hold.caller, id))
        memory = write.get(MEMORY, shown.conflict.about)
        assert memory is not None
        must_change(hold, write, memory)
        if keep == "both":
            return shown.conflict, _both(hold, write, shown)
        conflicts.resolve(write, shown.conflict, _chosen(shown, keep, value))
    return shown.conflict, None


def parts_of_resolving(hold: Hold, id: str, keep: Keep, value: Any = None) -> Parts:
    """Describe a resolution for lifecycle hooks: what it stores, deletes or links."""
    with hold.reading() as session:
        shown = show(hold, session, id)
        conflict, places = shown.conflict, [shown.conflict.namespace]
        if conflict.kind == LINK.name and (row := session.row("link_get", id=conflict.record)):
            link = LINK.load(row)
            places += places_of(hold, session, [link.source, link.target])
    if conflict.kind != MEMORY.name:
        return Parts().add("link", places) if conflict.kind == LINK.name else Parts()
    if keep == "both":
        return Parts().add("store", places, {"id": shown.sides.lost.record, conflict.cell: shown.sides.lost.value})
    stands = _chosen(shown, keep, value)
    if (conflict.cell, stands) == ("state", "deleted"):
        return Parts().add("delete", places)
    moved = [stands] if conflict.cell == "namespace" else []
    return Parts().add("store", [*places, *moved], {"id": conflict.about, conflict.cell: stands})


def _chosen(shown: Shown, keep: Keep, value: Any) -> Any:
    if keep == "edited":
        if shown.conflict.cell not in ("content", "title") or not isinstance(value, str):
            raise Invalid("value: keep edited needs a text, and a conflict of content or title", fields=["value"])
        return door.content(value) if shown.conflict.cell == "content" else door.title(value)
    if keep in ("mine", "theirs"):
        if shown.mine is None:
            raise Invalid("keep: this store wrote both values or neither: use shown or other", fields=["keep"])
        keep = shown.mine if keep == "mine" else "other" if shown.mine == "shown" else "shown"
    return (shown.sides.shown if keep == "shown" else shown.sides.lost).value


def _both(hold: Hold, write: Transaction, shown: Shown) -> str:
    """Give the other content its own memory: its existing record if it has one, else a new memory."""
    conflict, (winner, lost) = shown.conflict, shown.sides
    if conflict.kind != "memory" or conflict.cell != "content":
        raise Invalid("keep: both is only possible for two contents of a memory", fields=["keep"])
    together = conflicts.under_title(write, conflict)
    (own,) = [member.own for member in titles.members(write, [lost.record])]
    title = _free(write, own.namespace, own.title)
    if winner.record != lost.record and own.content == lost.value:
        titles.rename_one(write, lost.record, title, "resolve")
        conflicts.let_go(write, [id for id in together if id != lost.record], conflict.cell, lost.value)
        return lost.record
    copy = _copy(hold, write, own, title, lost.value)
    conflicts.let_go(write, together, conflict.cell, lost.value)
    return copy.id


def _copy(hold: Hold, write: Transaction, memory: Memory, title: str, content: str) -> Memory:
    """Add a copy of a memory with its own title and content, owned by the caller."""
    copy = replace(
        memory,
        id=hold.new_id(),
        title=title,
        content=content,
        agent=hold.caller.agent,
        origin=write.origin,
        created_at=write.now,
        updated_at=write.now,
        version=1,
        extra={},
    )
    must_be_free(hold, write, copy)
    return write.add(MEMORY, copy, "resolve")


def _free(write: Transaction, namespace: str, title: str) -> str:
    number = 2
    while title_holder(write, namespace, numbered(title, number)) is not None:
        number += 1
    return numbered(title, number)
