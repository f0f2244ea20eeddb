"""Conflicts: concurrent values that lost. Derived from the field versions, so they are equal on every node."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from holdfast.features.memories.store import visible
from holdfast.kernel.caller import Caller
from holdfast.kernel.clock import Stamp
from holdfast.kernel.errors import NotFound
from holdfast.kernel.journal.conflicts import EMPTY, found_in
from holdfast.kernel.journal.kinds import KINDS, MEMORY, Kind
from holdfast.kernel.journal.title_groups import members, read, settle, slot_of
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import field_versions as cells
from holdfast.kernel.records import merge
from holdfast.kernel.records.merge import AWAITED, MOST_LOST, canonical
from holdfast.kernel.storage.port import Part, Row, Session

if TYPE_CHECKING:
    pass


LOOKED_AT = 100
"""Maximum number of lost contents that are searched."""


class Conflict(NamedTuple):
    """A concurrent value of a field that lost and that no later edit replaced."""

    id: str
    kind: str
    record: str
    about: str
    cell: str
    stamp: Stamp
    found_at: int
    namespace: str
    title: str


def page(session: Session, caller: Caller, *, limit: int, skip: int) -> tuple[list[Conflict], int]:
    """List the conflicts visible to the caller, newest first, with their total."""
    parts, params = _seen(caller)
    rows = session.assembled(
        ("conflict_select", *parts, "conflict_select.page"), params | {"limit": limit, "skip": skip}
    )
    total = session.assembled(("conflict_count", *parts), params)
    return [_of(row) for row in rows], int(total[0][0])


class Lost(NamedTuple):
    """A content that lost, and the memory shown in its place."""

    memory: str
    text: str


def lost_contents(session: Session, caller: Caller) -> list[Lost]:
    """List the newest lost contents visible to the caller, so that search finds them too."""
    parts, params = _seen(caller)
    asked = ("conflict_select", *parts, "conflict_select.contents", "conflict_select.page")
    found = [_of(row) for row in session.assembled(asked, params | {"limit": LOOKED_AT, "skip": 0})]
    ids = sorted({conflict.record for conflict in found})
    held = {member.own.id: member.all["content"].values for member in read(session, ids)} if ids else {}
    shown: dict[str, str] = dict(session.rows("title_shown", ids=ids)) if ids else {}
    texts = [(shown.get(conflict.record), held[conflict.record].get(conflict.stamp)) for conflict in found]
    return [Lost(memory, text) for memory, text in texts if memory and isinstance(text, str)]


def one(session: Session, caller: Caller, id: str) -> Conflict:
    parts, params = _seen(caller)
    rows = session.assembled(("conflict_select", *parts, "conflict_select.one"), params | {"conflict": id})
    if not rows:
        raise NotFound(f"No conflict {id!r}: it may have been resolved already.", id=id)
    return _of(rows[0])


def _seen(caller: Caller) -> tuple[list[Part], dict[str, Any]]:
    return visible(caller)


def _of(row: Row) -> Conflict:
    id, kind, record, about, cell, at, origin, found_at, _, namespace, title = row
    return Conflict(id, kind, record, about, cell, Stamp(at, origin), found_at, namespace, title)


class Side(NamedTuple):
    """One value of a conflict and its author."""

    record: str
    stamp: Stamp
    value: Any
    actor: str | None


class Sides(NamedTuple):
    shown: Side
    lost: Side


def sides(session: Session, caller: Caller, conflict: Conflict) -> Sides:
    """Return the shown and the lost value; both must be visible to the caller."""
    kind = KINDS[conflict.kind]
    if kind is MEMORY:
        others = [row[0] for row in session.rows("title_with", id=conflict.record)]
        held = {member.own.id: member.all.get(conflict.cell) for member in read(session, others, seen=_seen(caller))}
    else:
        row, raw = (session.row(f"{kind.name}_{what}", id=conflict.record) for what in ("get", "cells"))
        assert row is not None
        assert raw is not None
        shows = cells.flatten(kind.shape, kind.load(row))
        held = {conflict.record: cells.unpack(raw[0], shows).all(shows).get(conflict.cell)}
    values = [Side(id, stamp, value, None) for id, cell in held.items() if cell for stamp, value in cell.values.items()]
    known = [side for side in values if side.value is not AWAITED]
    shown = max(known, key=lambda side: (side.stamp, canonical(side.value)))
    lost = next(side for side in known if (side.record, side.stamp) == (conflict.record, conflict.stamp))
    return Sides(_by(session, conflict.kind, shown), _by(session, conflict.kind, lost))


def _by(session: Session, kind: str, side: Side) -> Side:
    row = session.row("change_by_stamp", record=side.record, kind=kind, origin=side.stamp.origin, at=side.stamp.time)
    return side._replace(actor=row[0] if row else None)


def under_title(write: Transaction, conflict: Conflict) -> list[str]:
    """List the title group of the memory in a conflict."""
    return [row[0] for row in write.session.rows("title_with", id=conflict.record)]


def resolve(write: Transaction, conflict: Conflict, value: Any) -> None:
    """Replace all values of the field by one, in every record of the title group."""
    kind = KINDS[conflict.kind]
    if kind is not MEMORY:
        record: Any = write.get(kind, conflict.record)
        _write_over(write, kind, record, record, write.cells_of(kind, record), conflict.cell, value)
        return
    held = members(write, under_title(write, conflict))
    for member in held:
        _write_over(write, kind, member.row, member.own, member.cells, conflict.cell, value)
    settle(write, [member.own.id for member in held], [slot_of(member.own) for member in held])


def let_go(write: Transaction, ids: Sequence[str], cell: str, lost: Any) -> None:
    """Remove one lost value of a field from memories; other concurrent values stay in conflict."""
    held = members(write, ids)
    for member in held:
        mine = getattr(member.own, cell)
        values = member.all[cell].values.values()
        if canonical(mine) != canonical(lost) and any(canonical(value) == canonical(lost) for value in values):
            _write_over(write, MEMORY, member.row, member.own, member.cells, cell, mine, [mine, lost])
    settle(write, ids, [slot_of(member.own) for member in held])


def thin(write: Transaction, record: str, cell: str) -> None:
    """Keep only the newest unresolved values of a field; drop the rest by an ordinary change."""
    (member,) = members(write, [record])
    shown, *lost = sorted(member.all[cell].values.items(), reverse=True)
    for _, value in lost[MOST_LOST:]:
        if canonical(value) != canonical(shown[1]):
            let_go(write, [record], cell, value)


def _write_over(
    write: Transaction,
    kind: Kind[Any],
    row: Any,
    own: Any,
    held: cells.Cells,
    name: str,
    value: Any,
    replaces: Sequence[Any] | None = None,
) -> None:
    shows = cells.flatten(kind.shape, own)
    all_cells = held.all(shows)
    names = [name] if name not in kind.shape.reviving or name == "state" else [name, "state"]
    stamp = write.stamp([time for one in names for time in all_cells.get(one, EMPTY).seen.values()])
    written = {name: merge.write(all_cells.get(name, EMPTY), stamp, value, replaces)}
    if "state" in names[1:]:
        written["state"] = merge.write(all_cells.get("state", EMPTY), stamp, shows["state"], [shows["state"]])
    new = cells.Cells(held.base, {**all_cells, **written})
    said = cells.shows(kind.shape, {cell: [one] for cell, one in new.own.items()})
    after = replace(cells.rebuilt(kind.shape, own, said), **write.following(own))
    now_shows = cells.flatten(kind.shape, after)
    write.put_unshown(kind, row, after, cells.pack(cells.least(new, now_shows), now_shows))
    delta = cells.encode({cell: merge.delta(one, stamp) for cell, one in written.items()})
    write.note(kind, after, "resolve", stamp, delta.decode())
    found_in(write.session, write.now, kind, after, new)
