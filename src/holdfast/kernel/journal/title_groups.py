"""Title groups: memories that got the same title on several stores are shown as one; none of them is changed.

The memory with the smallest id is the representative: its columns show the newest value of every field of the group.
Each member's own state is in its field versions and its journal.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.kernel.clock import Stamp
from holdfast.kernel.journal import conflicts, journal
from holdfast.kernel.journal.kinds import MEMORY, memory_of
from holdfast.kernel.journal.record_writer import RecordWriter, body_of
from holdfast.kernel.records import field_versions as cells
from holdfast.kernel.records.field_versions import Cells
from holdfast.kernel.records.memory import MEMORY_SHAPE, Memory, audience
from holdfast.kernel.records.merge import Cell
from holdfast.kernel.storage.port import Part, Session

TOGETHER = ("namespace", "title")
"""Fields that change for all members of a group: a rename or move applies to the whole group."""


class Slot(NamedTuple):
    """Key of a title group: namespace, title and audience."""

    namespace: str
    title: str
    audience: str


class Member(NamedTuple):
    """One memory of a title group."""

    row: Memory
    """Its columns."""
    own: Memory
    """Its own state."""
    cells: Cells

    @property
    def all(self) -> dict[str, Cell]:
        return self.cells.all(cells.flatten(MEMORY_SHAPE, self.own))


def settle(write: RecordWriter, ids: Iterable[str], left: Iterable[Slot] = ()) -> None:
    """Recompute the title groups of some memories, and of the titles they had before (`left`)."""
    session, wanted = write.session, sorted(set(ids))
    slots: dict[Slot, list[tuple[str, str | None]]] = {}
    for id, *slot, shown in session.rows("title_members", ids=wanted) if wanted else ():
        slots.setdefault(Slot(*slot), []).append((id, shown))
    for before in set(left) - slots.keys():
        for id, *slot, shown in session.rows("title_at", namespace=before.namespace, title=before.title):
            if Slot(*slot) == before:
                slots.setdefault(before, []).append((id, shown))
    alone = [held[0] for held in slots.values() if len(held) == 1]
    if fresh := [id for id, shown in alone if shown is None]:
        session.do("title_show", ids=fresh)
    for id in (id for id, shown in alone if shown is not None and _was_shared(write, id, shown)):
        _unshare(write, id)
    shared = [[id for id, _ in held] for held in slots.values() if len(held) > 1]
    for group in shared:
        share(write, group)
    apart = {*wanted, *(id for id, _ in alone)}.difference(*shared)
    _find_conflicts_again(write, sorted(apart))


def _was_shared(write: RecordWriter, id: str, shown: str) -> bool:
    return shown != id or write.get(MEMORY, id) != own(write, id)


def _unshare(write: RecordWriter, id: str) -> None:
    """Show the own state of a memory that is alone under its title again."""
    write.session.do("title_hide", ids=[id])
    (member,) = members(write, [id])
    shows = cells.flatten(MEMORY_SHAPE, member.own)
    packed = cells.pack(cells.least(member.cells, shows), shows)
    write.put(MEMORY, member.row, member.own, packed, shown=id)


def share(write: RecordWriter, ids: Sequence[str]) -> Memory:
    """Show memories as one, under the smallest of their ids."""
    write.session.do("title_hide", ids=list(ids))
    first, *others = members(write, ids)
    for member in others:
        if member.row != member.own:
            shows = cells.flatten(MEMORY_SHAPE, member.own)
            write.put(MEMORY, member.row, member.own, cells.pack(cells.least(member.cells, shows), shows), shown=None)
    one = together([first, *others])
    packed = cells.pack(Cells(first.cells.base, first.all), cells.flatten(MEMORY_SHAPE, one))
    write.put(MEMORY, first.row, one, packed, shown=one.id)
    write.session.do("title_stand_for", shown=one.id, ids=[member.own.id for member in others])
    group = [first, *others]
    conflicts.found_among(write.session, write.now, [(one.own.id, one.all) for one in group], gathered(group))
    return one


def together(held: Sequence[Member]) -> Memory:
    """Build what a title group shows: the newest value of every field and the tags of all."""
    first = held[0].own
    values = cells.shows(MEMORY_SHAPE, gathered(held))
    return replace(
        cells.rebuilt(MEMORY_SHAPE, first, values),
        expires_at=_last_end([member.own.expires_at for member in held]),
        version=sum(member.own.version for member in held),
        updated_at=max(member.own.updated_at for member in held),
    )


def _last_end(ends: Sequence[int | None]) -> int | None:
    """Return the latest expiry; None if any member never expires."""
    return None if None in ends else max(end for end in ends if end is not None)


def release(write: RecordWriter, ids: Sequence[str], mates: Sequence[str]) -> None:
    """Restore the own state of collected memories and recompute their title groups."""
    for member in members(write, ids):
        if member.row != member.own:
            shows = cells.flatten(MEMORY_SHAPE, member.own)
            packed = cells.pack(cells.least(member.cells, shows), shows)
            write.put(MEMORY, member.row, member.own, packed, shown=None, collected_at=write.now)
    settle(write, [*ids, *mates])


def outlived(write: RecordWriter, standing: Sequence[str]) -> list[str]:
    """Return the representatives that have expired themselves."""
    return [member.own.id for member in members(write, standing) if write.is_over(member.own)]


def _find_conflicts_again(write: RecordWriter, memories: list[str]) -> None:
    """Recompute the conflicts of those memories that had some, each on its own."""
    known = [row[0] for row in write.session.rows("conflict_records", ids=memories)] if memories else []
    for member in members(write, known) if known else ():
        conflicts.found_in(write.session, write.now, MEMORY, member.own, member.cells)


def gathered(held: Sequence[Member]) -> dict[str, list[Cell]]:
    """Return the states of all members by field."""
    found: dict[str, list[Cell]] = {}
    for member in held:
        for name, cell in member.all.items():
            found.setdefault(name, []).append(cell)
    return found


def members(write: RecordWriter, ids: Sequence[str]) -> list[Member]:
    """Load memories with their own state, this transaction's changes included."""
    return read(write.session, ids, write.said)


def read(
    session: Session,
    ids: Sequence[str],
    said: Mapping[str, Memory] | None = None,
    seen: tuple[list[Part], dict[str, Any]] = ([], {}),
) -> list[Member]:
    """Load memories with their own state, ordered by id; `seen` restricts them to those the caller can see."""
    parts, params = seen
    rows = session.assembled(("memory_select", *parts, "memory.some"), params | {"ids": list(ids)})
    found = []
    for row in sorted(map(memory_of, rows), key=lambda memory: memory.id):
        raw = session.row("memory_cells", id=row.id)
        assert raw is not None
        held = cells.unpack(raw[0], cells.flatten(MEMORY_SHAPE, row))
        found.append(Member(row, _own(session, row.id, said or {}), held))
    return found


def own(write: RecordWriter, id: str) -> Memory:
    """Return the own state of a memory, as of its last change."""
    return _own(write.session, id, write.said)


def _own(session: Session, id: str, said: Mapping[str, Memory]) -> Memory:
    if id in said:
        return said[id]
    row = session.row("journal_own", record=id, kind="memory")
    if row is None:
        raise LookupError(f"The journal has no entry of {id}.")
    return body_of(MEMORY, journal.Entry(*row))


def change_shared(
    write: RecordWriter, before: Memory, after: Memory, others: list[str], op: str, *, tidying: bool = False
) -> Memory:
    """Change a title group: each field in the member whose value is shown, group fields in all members.

    If `before` is not the representative, only that member changes.
    """
    edits = cells.changed(MEMORY_SHAPE, before, after)
    if not edits:
        return before
    held = members(write, [before.id] if before.id in others else [before.id, *others])
    all_cells = gathered(held)
    floors = [time for name in edits for cell in all_cells.get(name, ()) for time in cell.seen.values()]
    stamp = write.stamp(floors, tidying=tidying)
    for member, mine in _shares(held, edits):
        _change_one(write, member, mine, stamp, op, tidying=tidying)
    settle(write, [member.own.id for member in held], [slot_of(member.own) for member in held])
    row = write.session.assembled(("memory_select", "memory.one"), {"id": before.id})[0]
    return memory_of(row)


def add_beside(write: RecordWriter, memory: Memory, op: str) -> None:
    """Store a new memory whose title is taken: both are shown as one."""
    stamp = write.stamp(())
    write.put_unshown(MEMORY, None, memory, cells.pack(cells.Cells(stamp, {}), {}))
    write.note(MEMORY, memory, op, stamp, None)
    settle(write, [memory.id])


def rename_one(write: RecordWriter, id: str, title: str, op: str) -> None:
    """Rename one member of a title group: it is shown on its own again."""
    (member,) = members(write, [id])
    stamp = write.stamp([time for name in ("title", "state") for time in member.all[name].seen.values()])
    _change_one(write, member, {"title": title, "state": member.own.state}, stamp, op, tidying=False)
    settle(write, [id], [slot_of(member.own)])


def slot_of(memory: Memory) -> Slot:
    return Slot(memory.namespace, memory.title, audience(memory))


def _shares(held: Sequence[Member], edits: Mapping[str, tuple[Any, Any]]) -> list[tuple[Member, dict[str, Any]]]:
    """Assign the edits to the members."""
    parts: list[tuple[Member, dict[str, Any]]] = [(member, {}) for member in held]
    for name, (old, new) in edits.items():
        for place in _places(held, name, old, new):
            parts[place][1][name] = new
    for _, mine in parts:
        if "state" in edits and any(name in mine for name in MEMORY_SHAPE.reviving):
            mine["state"] = edits["state"][1]
    return [(member, mine) for member, mine in parts if mine]


def _places(held: Sequence[Member], name: str, old: Any, new: Any) -> list[int]:
    everyone = list(range(len(held)))
    if name in TOGETHER:
        return everyone
    if name in ("state", "reason"):
        return everyone if old != new else []
    having = [place for place in everyone if name in held[place].all and held[place].all[name].values]
    if name.split(":", 1)[0] in (*MEMORY_SHAPE.sets, *MEMORY_SHAPE.maps) and new in (False, None):
        return having
    return [max(having, key=lambda place: max(held[place].all[name].values))] if having else [0]


def _change_one(
    write: RecordWriter, member: Member, mine: Mapping[str, Any], stamp: Stamp, op: str, *, tidying: bool
) -> None:
    shows = cells.flatten(MEMORY_SHAPE, member.own)
    edits = {name: (shows.get(name), new) for name, new in mine.items()}
    new, delta = cells.edit(MEMORY_SHAPE, member.cells, edits, stamp)
    values = {name: new.cell(name, shows.get(name)) for name in {**shows, **new.own}}
    after = cells.rebuilt(MEMORY_SHAPE, member.own, cells.shows(MEMORY_SHAPE, {n: [c] for n, c in values.items()}))
    after = replace(after, **write.following(member.own, tidying=tidying))
    shows = cells.flatten(MEMORY_SHAPE, after)
    write.put_unshown(MEMORY, member.row, after, cells.pack(cells.least(new, shows), shows))
    write.note(MEMORY, after, op, stamp, delta.decode())
