"""Conflicts: concurrent values that lost, until they are resolved.

They are derived from the field versions, so they are equal on every node.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Struct
from msgspec.structs import astuple, replace

from holdfast.features.memories.read_memories import find_namespaces, require_write_access, visibility_clauses
from holdfast.features.memories.store_memory import find_title_holder, number_title, require_free_title
from holdfast.kernel.context import Caller, Context
from holdfast.kernel.errors import Invalid, NotFound
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.conflicts import EMPTY_STATE, put_record_conflicts
from holdfast.kernel.journal.kinds import KINDS, LINK, MEMORY, Kind
from holdfast.kernel.journal.title_groups import load_members, read_members, regroup, rename_member, title_key
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import field_versions, merge, validate
from holdfast.kernel.records.fields import PRIVATE, Named, computed
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.merge import AWAITED, MAX_CONFLICTS_PER_FIELD, Resolution, canonical_json
from holdfast.kernel.registry.stages import StageEffects
from holdfast.kernel.storage.port import Row, Session
from holdfast.kernel.timestamps import Stamp, Time


class Conflict(Struct, frozen=True):
    """A concurrent value of a field that lost and that no later edit replaced."""

    id: str
    kind: str
    record: Annotated[str, PRIVATE]
    about: Annotated[str, Named("memory_id")]
    cell: Annotated[str, Named("field")]
    stamp: Annotated[Stamp, PRIVATE]
    found_at: Time
    namespace: str
    title: str


class ConflictSide(Struct, frozen=True):
    """One value of a conflict and its author."""

    record: Annotated[str, Named("memory_id")]
    stamp: Annotated[Stamp, PRIVATE]
    value: Any
    actor: str | None = None

    @computed
    def origin(self) -> str:
        return self.stamp.origin

    @computed
    def at(self) -> Time:
        return (self.stamp.time >> 16) * 1000


class ConflictDetails(Conflict, frozen=True, kw_only=True):
    """Two concurrent values of a field: one is shown, the other is kept."""

    shown: ConflictSide
    other: ConflictSide
    mine: Literal["shown", "other"] | None = None
    """The value that this store wrote, if it wrote exactly one."""


def list_conflicts(ctx: Context, session: Session, *, limit: int, skip: int) -> tuple[list[ConflictDetails], int]:
    """List the conflicts visible to the caller, newest first, with their total."""
    parts, params = visibility_clauses(ctx.caller)
    rows = session.select(("conflict_select", *parts, "conflict_select.page"), params | {"limit": limit, "skip": skip})
    total = session.select(("conflict_count", *parts), params)
    return [_load_details(ctx, session, row) for row in rows], int(total[0][0])


def get_conflict(ctx: Context, session: Session, id: str) -> ConflictDetails:
    """Return a conflict with both values."""
    parts, params = visibility_clauses(ctx.caller)
    rows = session.select(("conflict_select", *parts, "conflict_select.one"), params | {"conflict": id})
    if not rows:
        raise NotFound(f"No conflict {id!r}: it may have been resolved already.", id=id)
    return _load_details(ctx, session, rows[0])


def _load_details(ctx: Context, session: Session, row: Row) -> ConflictDetails:
    id, kind, record, about, cell, at, origin, found_at, _, namespace, title = row
    conflict = Conflict(id, kind, record, about, cell, Stamp(at, origin), found_at, namespace, title)
    shown, other = _get_sides(session, ctx.caller, conflict)
    node = journal.get_head(session).node
    own = [side.stamp.origin.partition(".")[0] == node for side in (shown, other)]
    mine: Literal["shown", "other"] = "shown" if own[0] else "other"
    return ConflictDetails(*astuple(conflict), shown=shown, other=other, mine=None if own[0] == own[1] else mine)


def resolve_conflict(ctx: Context, id: str, keep: Resolution, value: Any = None) -> tuple[ConflictDetails, str | None]:
    """Resolve a conflict. With keep `both`, the other value gets its own memory, whose id is returned."""
    if value is not None and keep != "edited":
        raise Invalid("value: only allowed with keep edited", fields=["keep", "value"])
    with ctx.transaction() as write:
        details = get_conflict(ctx, write.session, id)
        memory = write.get(MEMORY, details.about)
        assert memory is not None
        require_write_access(ctx, write, memory)
        if keep == "both":
            return details, _keep_both(ctx, write, details)
        replace_values(write, details, _choose_value(details, keep, value))
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
    together = _list_title_group(write, conflict)
    (own,) = [member.own_record for member in load_members(write, [lost.record])]
    title = _find_free_title(write, own.namespace, own.title)
    if conflict.shown.record != lost.record and own.content == lost.value:
        rename_member(write, lost.record, title, "resolve")
        _drop_value(write, [id for id in together if id != lost.record], conflict.cell, lost.value)
        return lost.record
    copy = _copy_memory(ctx, write, own, title, lost.value)
    _drop_value(write, together, conflict.cell, lost.value)
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


def _get_sides(session: Session, caller: Caller, conflict: Conflict) -> tuple[ConflictSide, ConflictSide]:
    """Return the shown and the lost value; both must be visible to the caller."""
    kind = KINDS[conflict.kind]
    if kind is MEMORY:
        others = [row[0] for row in session.rows("title_group_with_self", id=conflict.record)]
        states = {
            member.own_record.id: member.all_states.get(conflict.cell)
            for member in read_members(session, others, visibility=visibility_clauses(caller))
        }
    else:
        row, raw = (session.row(f"{kind.name}_{what}", id=conflict.record) for what in ("get", "field_versions"))
        assert row is not None
        assert raw is not None
        shows = field_versions.flatten(kind.merge_schema, kind.load(row))
        states = {conflict.record: field_versions.unpack(raw[0], shows).all_states(shows).get(conflict.cell)}
    values = [
        ConflictSide(id, stamp, value) for id, cell in states.items() if cell for stamp, value in cell.values.items()
    ]
    known = [side for side in values if side.value is not AWAITED]
    shown = max(known, key=lambda side: (side.stamp, canonical_json(side.value)))
    lost = next(side for side in known if (side.record, side.stamp) == (conflict.record, conflict.stamp))
    return _add_actor(session, conflict.kind, shown), _add_actor(session, conflict.kind, lost)


def _add_actor(session: Session, kind: str, side: ConflictSide) -> ConflictSide:
    row = session.row("change_by_stamp", record=side.record, kind=kind, origin=side.stamp.origin, at=side.stamp.time)
    return replace(side, actor=row[0]) if row else side


def _list_title_group(write: Transaction, conflict: Conflict) -> list[str]:
    """List the title group of the memory in a conflict."""
    return [row[0] for row in write.session.rows("title_group_with_self", id=conflict.record)]


def replace_values(write: Transaction, conflict: Conflict, value: Any) -> None:
    """Replace all values of the field by one, in every record of the title group."""
    kind = KINDS[conflict.kind]
    if kind is not MEMORY:
        record: Any = write.get(kind, conflict.record)
        _overwrite_field(write, kind, record, record, write.get_field_versions(kind, record), conflict.cell, value)
        return
    group = load_members(write, _list_title_group(write, conflict))
    for member in group:
        _overwrite_field(write, kind, member.row, member.own_record, member.versions, conflict.cell, value)
    regroup(write, [member.own_record.id for member in group], [title_key(member.own_record) for member in group])


def _drop_value(write: Transaction, ids: Sequence[str], cell: str, lost: Any) -> None:
    """Remove one lost value of a field from memories; other concurrent values stay in conflict."""
    group = load_members(write, ids)
    for member in group:
        mine = getattr(member.own_record, cell)
        values = member.all_states[cell].values.values()
        if canonical_json(mine) != canonical_json(lost) and any(
            canonical_json(value) == canonical_json(lost) for value in values
        ):
            _overwrite_field(write, MEMORY, member.row, member.own_record, member.versions, cell, mine, [mine, lost])
    regroup(write, ids, [title_key(member.own_record) for member in group])


def drop_excess_values(write: Transaction, record: str, cell: str) -> None:
    """Keep only the newest unresolved values of a field; drop the rest by an ordinary change."""
    (member,) = load_members(write, [record])
    shown, *lost = sorted(member.all_states[cell].values.items(), reverse=True)
    for _, value in lost[MAX_CONFLICTS_PER_FIELD:]:
        if canonical_json(value) != canonical_json(shown[1]):
            _drop_value(write, [record], cell, value)


def _overwrite_field(
    write: Transaction,
    kind: Kind[Any],
    row: Any,
    own: Any,
    versions: field_versions.FieldVersions,
    name: str,
    value: Any,
    replaces: Sequence[Any] | None = None,
) -> None:
    values = field_versions.flatten(kind.merge_schema, own)
    all_cells = versions.all_states(values)
    names = [name] if name not in kind.merge_schema.reviving_fields or name == "state" else [name, "state"]
    stamp = write.stamp([time for one in names for time in all_cells.get(one, EMPTY_STATE).seen.values()])
    written = {name: merge.write_value(all_cells.get(name, EMPTY_STATE), stamp, value, replaces)}
    if "state" in names[1:]:
        written["state"] = merge.write_value(
            all_cells.get("state", EMPTY_STATE), stamp, values["state"], [values["state"]]
        )
    new = field_versions.FieldVersions(versions.base, {**all_cells, **written})
    visible = field_versions.visible_values(kind.merge_schema, {cell: [one] for cell, one in new.own.items()})
    after = replace(field_versions.rebuild_record(kind.merge_schema, own, visible), **write.next_version(own))
    new_values = field_versions.flatten(kind.merge_schema, after)
    write.put_hidden(kind, row, after, field_versions.pack(field_versions.minimize(new, new_values), new_values))
    delta = field_versions.encode_states({cell: merge.to_delta(one, stamp) for cell, one in written.items()})
    write.journal_change(kind, after, "resolve", stamp, delta.decode())
    put_record_conflicts(write.session, write.now, kind, after, new)
