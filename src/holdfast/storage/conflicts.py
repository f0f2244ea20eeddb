"""Conflicts: what nobody has knowingly replaced and does not show. Derived from the cells, the same on every node."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from ..domain import cells, ids, merge
from ..domain.caller import Caller
from ..domain.clock import Stamp
from ..domain.errors import NotFound
from ..domain.memory import MEMORY_SHAPE
from ..domain.merge import AWAITED, MOST_LOST, Cell, canonical
from .port import Part, Row, Session
from .records import KINDS, MEMORY, Kind, R, Writing

if TYPE_CHECKING:
    from .titles import Member


EMPTY = Cell({}, {})
LOOKED_AT = 100
"""Contents that lost among which words are looked for."""


def id_of(record: str, cell: str, stamp: Stamp) -> str:
    """The same conflict is the same on every node."""
    return ids.derived("conflict", record, cell, str(stamp.time), stamp.origin)


def all_of(session: Session) -> set[str]:
    """The ids of all conflicts that stand."""
    return {row[0] for row in session.rows("conflict_ids")}


def found_in(write: Writing, kind: Kind[R], record: Any, held: cells.Cells) -> int:
    """Write down the conflicts within one record; how many there are."""
    write.session.do("conflict_clear", record=record.id, kind=kind.name)
    found = [
        (record.id, name, stamp)
        for name, cell in held.own.items()
        if len(cell.values) > 1
        for stamp in _lost(kind.shape, name, [cell], _purges([held.own]))
    ]
    _keep(write, kind, kind.about(record), found)
    return len(found)


def found_among(write: Writing, held: Sequence["Member"]) -> None:
    """Write down the conflicts of several memories that are shown as one."""
    from .titles import gathered

    for member in held:
        write.session.do("conflict_clear", record=member.own.id, kind="memory")
    purges = _purges([member.all for member in held])
    lost = {name: _lost(MEMORY_SHAPE, name, many, purges) for name, many in gathered(held).items()}
    for member in held:
        stamps = ((name, stamp) for name, cell in member.all.items() for stamp in cell.values)
        there = [(member.own.id, name, stamp) for name, stamp in stamps if stamp in lost[name]]
        _keep(write, MEMORY, member.own.id, there)


def _lost(shape: cells.Shape, name: str, many: Sequence[Cell], purges: set[Stamp]) -> set[Stamp]:
    """What lost; that a purge left nothing of the other fields is no second opinion of what they say."""
    lost = {stamp for stamp, _ in cells.losers(shape, name, many)}
    return lost if name == "state" else lost - purges


def _purges(held: Sequence[Mapping[str, Cell]]) -> set[Stamp]:
    return {stamp for all_cells in held for stamp in all_cells.get(cells.PURGED, EMPTY).values}


def found_again(write: Writing, memories: list[str]) -> None:
    """Look again at those of some memories that had conflicts, each by itself."""
    from .titles import members

    known = [row[0] for row in write.session.rows("conflict_records", ids=memories)] if memories else []
    for member in members(write, known) if known else ():
        found_in(write, MEMORY, member.own, member.cells)


def _keep(write: Writing, kind: Kind[R], about: str | None, found: list[tuple[str, str, Stamp]]) -> None:
    write.session.many(
        "conflict_put",
        (
            {
                "id": id_of(record, name, stamp),
                "kind": kind.name,
                "record": record,
                "about": about,
                "cell": name,
                "at": stamp.time,
                "origin": stamp.origin,
                "now": write.now,
            }
            for record, name, stamp in found
        ),
    )


class Conflict(NamedTuple):
    """A value of a record that nobody has knowingly replaced and that does not show."""

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
    """Conflicts of what a caller may see, newest first, and how many there are."""
    parts, params = _seen(caller)
    rows = session.assembled(
        ("conflict_select", *parts, "conflict_select.page"), params | {"limit": limit, "skip": skip}
    )
    total = session.assembled(("conflict_count", *parts), params)
    return [_of(row) for row in rows], int(total[0][0])


class Lost(NamedTuple):
    """A content that does not show, and the memory that is shown in its place."""

    memory: str
    text: str


def lost_contents(session: Session, caller: Caller) -> list[Lost]:
    """The newest contents that lost, of what a caller may see: their words are to be found, too."""
    from .titles import read

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
        raise NotFound(f"There is no conflict {id!r}: it may have been settled.", id=id)
    return _of(rows[0])


def _seen(caller: Caller) -> tuple[list[Part], dict[str, Any]]:
    from .memories import visible

    return visible(caller)


def _of(row: Row) -> Conflict:
    id, kind, record, about, cell, at, origin, found_at, _, namespace, title = row
    return Conflict(id, kind, record, about, cell, Stamp(at, origin), found_at, namespace, title)


class Side(NamedTuple):
    """One of the values of a conflict: what it is, and by whom."""

    record: str
    stamp: Stamp
    value: Any
    actor: str | None


class Sides(NamedTuple):
    shown: Side
    lost: Side


def sides(session: Session, caller: Caller, conflict: Conflict) -> Sides:
    """What shows, and what lost, both of which the caller may see."""
    from .titles import read

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


def under_title(write: Writing, conflict: Conflict) -> list[str]:
    """The memories that are shown as one with that of a conflict."""
    return [row[0] for row in write.session.rows("title_with", id=conflict.record)]


def resolve(write: Writing, conflict: Conflict, value: Any) -> None:
    """Put one value in place of all that a name has, in every record under the title."""
    from .titles import members, settle, slot_of

    kind = KINDS[conflict.kind]
    if kind is not MEMORY:
        record: Any = write.get(kind, conflict.record)
        _write_over(write, kind, record, record, write.cells_of(kind, record), conflict.cell, value)
        return
    held = members(write, under_title(write, conflict))
    for member in held:
        _write_over(write, kind, member.row, member.own, member.cells, conflict.cell, value)
    settle(write, [member.own.id for member in held], [slot_of(member.own) for member in held])


def let_go(write: Writing, ids: Sequence[str], cell: str, lost: Any) -> None:
    """Take a value out of the conflicts of some memories; what else was said at once stays one."""
    from .titles import members, settle, slot_of

    held = members(write, ids)
    for member in held:
        mine = getattr(member.own, cell)
        values = member.all[cell].values.values()
        if canonical(mine) != canonical(lost) and any(canonical(value) == canonical(lost) for value in values):
            _write_over(write, MEMORY, member.row, member.own, member.cells, cell, mine, [mine, lost])
    settle(write, ids, [slot_of(member.own) for member in held])


def thin(write: Writing, record: str, cell: str) -> None:
    """Keep the newest of what nobody settles; the rest is let go of by a change like any other."""
    from .titles import members

    (member,) = members(write, [record])
    shown, *lost = sorted(member.all[cell].values.items(), reverse=True)
    for _, value in lost[MOST_LOST:]:
        if canonical(value) != canonical(shown[1]):
            let_go(write, [record], cell, value)


def _write_over(
    write: Writing,
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
    found_in(write, kind, after, new)
