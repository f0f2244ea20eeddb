"""Conflicts: concurrent values that lost. Derived from the field versions, so they are equal on every node."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.memories.read_memories import visibility_clauses
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import NotFound
from holdfast.kernel.journal.conflicts import EMPTY_STATE, put_record_conflicts
from holdfast.kernel.journal.kinds import KINDS, MEMORY, Kind
from holdfast.kernel.journal.title_groups import load_members, read_members, regroup, title_key
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import field_versions, merge
from holdfast.kernel.records.fields import PRIVATE, Named, computed
from holdfast.kernel.records.merge import AWAITED, MAX_CONFLICTS_PER_FIELD, canonical_json
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


def list_conflicts(session: Session, caller: Caller, *, limit: int, skip: int) -> tuple[list[Conflict], int]:
    """List the conflicts visible to the caller, newest first, with their total."""
    parts, params = visibility_clauses(caller)
    rows = session.select(("conflict_select", *parts, "conflict_select.page"), params | {"limit": limit, "skip": skip})
    total = session.select(("conflict_count", *parts), params)
    return [_to_conflict(row) for row in rows], int(total[0][0])


def get_conflict(session: Session, caller: Caller, id: str) -> Conflict:
    parts, params = visibility_clauses(caller)
    rows = session.select(("conflict_select", *parts, "conflict_select.one"), params | {"conflict": id})
    if not rows:
        raise NotFound(f"No conflict {id!r}: it may have been resolved already.", id=id)
    return _to_conflict(rows[0])


def _to_conflict(row: Row) -> Conflict:
    id, kind, record, about, cell, at, origin, found_at, _, namespace, title = row
    return Conflict(id, kind, record, about, cell, Stamp(at, origin), found_at, namespace, title)


def get_sides(session: Session, caller: Caller, conflict: Conflict) -> tuple[ConflictSide, ConflictSide]:
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


def list_title_group(write: Transaction, conflict: Conflict) -> list[str]:
    """List the title group of the memory in a conflict."""
    return [row[0] for row in write.session.rows("title_group_with_self", id=conflict.record)]


def resolve_conflict(write: Transaction, conflict: Conflict, value: Any) -> None:
    """Replace all values of the field by one, in every record of the title group."""
    kind = KINDS[conflict.kind]
    if kind is not MEMORY:
        record: Any = write.get(kind, conflict.record)
        _overwrite_field(write, kind, record, record, write.get_field_versions(kind, record), conflict.cell, value)
        return
    group = load_members(write, list_title_group(write, conflict))
    for member in group:
        _overwrite_field(write, kind, member.row, member.own_record, member.versions, conflict.cell, value)
    regroup(write, [member.own_record.id for member in group], [title_key(member.own_record) for member in group])


def drop_value(write: Transaction, ids: Sequence[str], cell: str, lost: Any) -> None:
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
            drop_value(write, [record], cell, value)


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
