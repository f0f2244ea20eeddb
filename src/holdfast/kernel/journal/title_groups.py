"""Title groups: memories that got the same title on several stores are shown as one; none of them is changed.

The memory with the smallest id is the representative: its columns show the newest value of every field of the group.
Each member's own state is in its field versions and its journal.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from holdfast.kernel.journal import conflicts, journal
from holdfast.kernel.journal.kinds import MEMORY, Kind, R, body_of, load_memory
from holdfast.kernel.records import field_versions
from holdfast.kernel.records.field_versions import FieldVersions
from holdfast.kernel.records.memory import MEMORY_MERGE_SCHEMA, Memory, audience
from holdfast.kernel.records.merge import FieldState
from holdfast.kernel.storage.port import Session, SqlPart
from holdfast.kernel.timestamps import Stamp

GROUP_FIELDS = ("namespace", "title")
"""Fields that change for all members of a group: a rename or move applies to the whole group."""


class TitleKey(NamedTuple):
    """Key of a title group: namespace, title and audience."""

    namespace: str
    title: str
    audience: str


class Member(NamedTuple):
    """One memory of a title group."""

    row: Memory
    """Its columns."""
    own_record: Memory
    """Its own state."""
    versions: FieldVersions

    @property
    def all_states(self) -> dict[str, FieldState]:
        return self.versions.all_states(field_versions.flatten(MEMORY_MERGE_SCHEMA, self.own_record))


class GroupWriter(Protocol):
    """What title groups need of a transaction."""

    session: Session
    now: int

    @property
    def written_memories(self) -> Mapping[str, Memory]: ...

    def get(self, kind: Kind[R], id: str) -> R | None: ...

    def put(self, kind: Kind[R], before: R | None, record: R, packed: bytes, **local: Any) -> dict[str, Any]: ...

    def put_hidden(self, kind: Kind[R], before: R | None, record: R, packed: bytes) -> None: ...

    def stamp(self, floors: Iterable[int], *, tidying: bool = False) -> Stamp: ...

    def next_version(self, before: Any, *, tidying: bool = False) -> dict[str, int]: ...

    def journal_change(self, kind: Kind[R], record: R, op: str, stamp: Stamp, delta: str | None) -> None: ...

    def is_expired(self, memory: Memory) -> bool: ...


def regroup(write: GroupWriter, ids: Iterable[str], vacated: Iterable[TitleKey] = ()) -> None:
    """Recompute the title groups of some memories, and of the titles they had before (`vacated`)."""
    session, wanted = write.session, sorted(set(ids))
    slots: dict[TitleKey, list[tuple[str, str | None]]] = {}
    for id, *slot, visible_as in session.rows("title_members", ids=wanted) if wanted else ():
        slots.setdefault(TitleKey(*slot), []).append((id, visible_as))
    for before in set(vacated) - slots.keys():
        for id, *slot, visible_as in session.rows("title_at", namespace=before.namespace, title=before.title):
            if TitleKey(*slot) == before:
                slots.setdefault(before, []).append((id, visible_as))
    alone = [held[0] for held in slots.values() if len(held) == 1]
    if fresh := [id for id, visible_as in alone if visible_as is None]:
        session.do("title_show", ids=fresh)
    for id in (id for id, visible_as in alone if visible_as is not None and _was_grouped(write, id, visible_as)):
        _ungroup(write, id)
    shared = [[id for id, _ in held] for held in slots.values() if len(held) > 1]
    for group in shared:
        show_as_one(write, group)
    apart = {*wanted, *(id for id, _ in alone)}.difference(*shared)
    _refresh_conflicts(write, sorted(apart))


def _was_grouped(write: GroupWriter, id: str, visible_as: str) -> bool:
    return visible_as != id or write.get(MEMORY, id) != get_own_record(write, id)


def _ungroup(write: GroupWriter, id: str) -> None:
    """Show the own state of a memory that is alone under its title again."""
    write.session.do("title_hide", ids=[id])
    (member,) = load_members(write, [id])
    shows = field_versions.flatten(MEMORY_MERGE_SCHEMA, member.own_record)
    packed = field_versions.pack(field_versions.minimize(member.versions, shows), shows)
    write.put(MEMORY, member.row, member.own_record, packed, visible_as=id)


def show_as_one(write: GroupWriter, ids: Sequence[str]) -> Memory:
    """Show memories as one, under the smallest of their ids."""
    write.session.do("title_hide", ids=list(ids))
    first, *others = load_members(write, ids)
    for member in others:
        if member.row != member.own_record:
            shows = field_versions.flatten(MEMORY_MERGE_SCHEMA, member.own_record)
            write.put(
                MEMORY,
                member.row,
                member.own_record,
                field_versions.pack(field_versions.minimize(member.versions, shows), shows),
                visible_as=None,
            )
    one = build_representative([first, *others])
    packed = field_versions.pack(
        FieldVersions(first.versions.base, first.all_states), field_versions.flatten(MEMORY_MERGE_SCHEMA, one)
    )
    write.put(MEMORY, first.row, one, packed, visible_as=one.id)
    write.session.do("title_set_representative", visible_as=one.id, ids=[member.own_record.id for member in others])
    group = [first, *others]
    conflicts.put_group_conflicts(
        write.session, write.now, [(one.own_record.id, one.all_states) for one in group], collect_states(group)
    )
    return one


def build_representative(members: Sequence[Member]) -> Memory:
    """Build what a title group shows: the newest value of every field and the tags of all."""
    first = members[0].own_record
    values = field_versions.visible_values(MEMORY_MERGE_SCHEMA, collect_states(members))
    return replace(
        field_versions.rebuild_record(MEMORY_MERGE_SCHEMA, first, values),
        expires_at=_latest_expiry([member.own_record.expires_at for member in members]),
        version=sum(member.own_record.version for member in members),
        updated_at=max(member.own_record.updated_at for member in members),
    )


def _latest_expiry(ends: Sequence[int | None]) -> int | None:
    """Return the latest expiry; None if any member never expires."""
    return None if None in ends else max(end for end in ends if end is not None)


def release_members(write: GroupWriter, ids: Sequence[str], others: Sequence[str]) -> None:
    """Restore the own state of collected memories and recompute their title groups."""
    for member in load_members(write, ids):
        if member.row != member.own_record:
            shows = field_versions.flatten(MEMORY_MERGE_SCHEMA, member.own_record)
            packed = field_versions.pack(field_versions.minimize(member.versions, shows), shows)
            write.put(MEMORY, member.row, member.own_record, packed, visible_as=None, collected_at=write.now)
    regroup(write, [*ids, *others])


def expired_representatives(write: GroupWriter, representatives: Sequence[str]) -> list[str]:
    """Return the representatives that have expired themselves."""
    return [
        member.own_record.id for member in load_members(write, representatives) if write.is_expired(member.own_record)
    ]


def _refresh_conflicts(write: GroupWriter, memories: list[str]) -> None:
    """Recompute the conflicts of those memories that had some, each on its own."""
    known = [row[0] for row in write.session.rows("conflict_records", ids=memories)] if memories else []
    for member in load_members(write, known) if known else ():
        conflicts.put_record_conflicts(write.session, write.now, MEMORY, member.own_record, member.versions)


def collect_states(members: Sequence[Member]) -> dict[str, list[FieldState]]:
    """Return the states of all members by field."""
    found: dict[str, list[FieldState]] = {}
    for member in members:
        for name, cell in member.all_states.items():
            found.setdefault(name, []).append(cell)
    return found


def load_members(write: GroupWriter, ids: Sequence[str]) -> list[Member]:
    """Load memories with their own state, this transaction's changes included."""
    return read_members(write.session, ids, write.written_memories)


def read_members(
    session: Session,
    ids: Sequence[str],
    written: Mapping[str, Memory] | None = None,
    visibility: tuple[list[SqlPart], dict[str, Any]] = ([], {}),
) -> list[Member]:
    """Load memories with their own state, ordered by id; `visibility` restricts them to those the caller can see."""
    parts, params = visibility
    rows = session.select(("memory_select", *parts, "memory.some"), params | {"ids": list(ids)})
    found = []
    for row in sorted(map(load_memory, rows), key=lambda memory: memory.id):
        raw = session.row("memory_field_versions", id=row.id)
        assert raw is not None
        held = field_versions.unpack(raw[0], field_versions.flatten(MEMORY_MERGE_SCHEMA, row))
        found.append(Member(row, _read_own_record(session, row.id, written or {}), held))
    return found


def get_own_record(write: GroupWriter, id: str) -> Memory:
    """Return the own state of a memory, as of its last change."""
    return _read_own_record(write.session, id, write.written_memories)


def _read_own_record(session: Session, id: str, written: Mapping[str, Memory]) -> Memory:
    if id in written:
        return written[id]
    row = session.row("journal_last_body", record=id, kind="memory")
    if row is None:
        raise LookupError(f"The journal has no entry of {id}.")
    return body_of(MEMORY, journal.Entry(*row))


def change_group(
    write: GroupWriter, before: Memory, after: Memory, others: list[str], op: str, *, tidying: bool = False
) -> Memory:
    """Change a title group: each field in the member whose value is shown, group fields in all members.

    If `before` is not the representative, only that member changes.
    """
    edits = field_versions.diff_fields(MEMORY_MERGE_SCHEMA, before, after)
    if not edits:
        return before
    held = load_members(write, [before.id] if before.id in others else [before.id, *others])
    all_cells = collect_states(held)
    floors = [time for name in edits for cell in all_cells.get(name, ()) for time in cell.seen.values()]
    stamp = write.stamp(floors, tidying=tidying)
    for member, mine in _assign_edits(held, edits):
        _change_member(write, member, mine, stamp, op, tidying=tidying)
    regroup(write, [member.own_record.id for member in held], [title_key(member.own_record) for member in held])
    row = write.session.select(("memory_select", "memory.one"), {"id": before.id})[0]
    return load_memory(row)


def add_to_group(write: GroupWriter, memory: Memory, op: str) -> None:
    """Store a new memory whose title is taken: both are shown as one."""
    stamp = write.stamp(())
    write.put_hidden(MEMORY, None, memory, field_versions.pack(field_versions.FieldVersions(stamp, {}), {}))
    write.journal_change(MEMORY, memory, op, stamp, None)
    regroup(write, [memory.id])


def rename_member(write: GroupWriter, id: str, title: str, op: str) -> None:
    """Rename one member of a title group: it is shown on its own again."""
    (member,) = load_members(write, [id])
    stamp = write.stamp([time for name in ("title", "state") for time in member.all_states[name].seen.values()])
    _change_member(write, member, {"title": title, "state": member.own_record.state}, stamp, op, tidying=False)
    regroup(write, [id], [title_key(member.own_record)])


def title_key(memory: Memory) -> TitleKey:
    return TitleKey(memory.namespace, memory.title, audience(memory))


def _assign_edits(
    members: Sequence[Member], edits: Mapping[str, tuple[Any, Any]]
) -> list[tuple[Member, dict[str, Any]]]:
    """Assign the edits to the members."""
    parts: list[tuple[Member, dict[str, Any]]] = [(member, {}) for member in members]
    for name, (old, new) in edits.items():
        for place in _members_to_edit(members, name, old, new):
            parts[place][1][name] = new
    for _, mine in parts:
        if "state" in edits and any(name in mine for name in MEMORY_MERGE_SCHEMA.reviving_fields):
            mine["state"] = edits["state"][1]
    return [(member, mine) for member, mine in parts if mine]


def _members_to_edit(members: Sequence[Member], name: str, old: Any, new: Any) -> list[int]:
    everyone = list(range(len(members)))
    if name in GROUP_FIELDS:
        return everyone
    if name in ("state", "reason"):
        return everyone if old != new else []
    having = [
        place for place in everyone if name in members[place].all_states and members[place].all_states[name].values
    ]
    if name.split(":", 1)[0] in (*MEMORY_MERGE_SCHEMA.set_fields, *MEMORY_MERGE_SCHEMA.map_fields) and new in (
        False,
        None,
    ):
        return having
    return [max(having, key=lambda place: max(members[place].all_states[name].values))] if having else [0]


def _change_member(
    write: GroupWriter, member: Member, edits_of_member: Mapping[str, Any], stamp: Stamp, op: str, *, tidying: bool
) -> None:
    shows = field_versions.flatten(MEMORY_MERGE_SCHEMA, member.own_record)
    edits = {name: (shows.get(name), new) for name, new in edits_of_member.items()}
    new, delta = field_versions.apply_edits(MEMORY_MERGE_SCHEMA, member.versions, edits, stamp)
    values = {name: new.state_of(name, shows.get(name)) for name in {**shows, **new.own}}
    after = field_versions.rebuild_record(
        MEMORY_MERGE_SCHEMA,
        member.own_record,
        field_versions.visible_values(MEMORY_MERGE_SCHEMA, {n: [c] for n, c in values.items()}),
    )
    after = replace(after, **write.next_version(member.own_record, tidying=tidying))
    shows = field_versions.flatten(MEMORY_MERGE_SCHEMA, after)
    write.put_hidden(MEMORY, member.row, after, field_versions.pack(field_versions.minimize(new, shows), shows))
    write.journal_change(MEMORY, after, op, stamp, delta.decode())
