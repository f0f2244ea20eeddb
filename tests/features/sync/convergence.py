"""What must hold after stores have synced, computed without the code under test."""

from collections import defaultdict
from typing import Any, NamedTuple

import msgspec
from sync_world import World

import holdfast
from holdfast.features.sync import read_changes
from holdfast.kernel.journal import title_groups
from holdfast.kernel.records import field_versions
from holdfast.kernel.records.change import Change
from holdfast.kernel.records.memory import MEMORY_MERGE_SCHEMA, Memory
from holdfast.kernel.records.merge import AWAITED, FieldState, canonical_json
from holdfast.kernel.timestamps import Stamp


class CellWrite(NamedTuple):
    """The write of one field by a change: its value, the versions it saw, and those it kept."""

    stamp: Stamp
    value: Any
    seen: dict[str, int]
    kept: set[Stamp]


def must_agree(world: World) -> None:
    """Assert that all stores are equal, and equal to the merge of their changes."""
    first = world.stores[0]
    assert [len(list_quarantined(store)) for store in world.stores] == [0] * len(world.stores), (
        "something is still in quarantine"
    )
    assert len({str(sorted(end.read_handshake().vector.items())) for end in world.ends}) == 1, "the vectors differ"
    assert len({digest_of(store) for store in world.stores}) == 1, "the digests differ"
    shown = view(first)
    assert all(view(store) == shown for store in world.stores), "the same records are shown in different ways"
    report = world.stores[world.number % len(world.stores)].verify()
    assert report.intact, report.findings
    must_equal_its_changes(first)
    must_find(world)


def digest_of(store: holdfast.Holdfast) -> str:
    with store.ctx.reading() as session:
        return read_changes.compute_digest(session)


def list_quarantined(store: holdfast.Holdfast) -> list[Any]:
    with store.ctx.reading() as session:
        return [(row[2], row[3]) for row in session.rows("quarantine_list")]


def view(store: holdfast.Holdfast) -> list[Any]:
    """Return all replicated data that a store shows."""
    memories = [
        (
            m.namespace,
            m.title,
            m.id,
            m.content,
            sorted(m.tags),
            m.priority,
            m.reflection_depth,
            m.metadata,
            m.expires_at,
        )
        for m in store.list(limit=200).memories
    ]
    with store.ctx.reading() as session:
        conflicts = [row[0] for row in session.query_sql("select id from conflict order by id", {})]
    return [
        sorted(memories, key=str),
        conflicts,
        sorted((one.id, one.status) for one in store.invalidations(limit=100).invalidations),
    ]


def must_equal_its_changes(store: holdfast.Holdfast) -> None:
    """Assert that every field holds exactly the written values that no later write replaced."""
    with store.ctx.reading() as session:
        changes = read_changes.read_page(session, store.ctx.store.signing_key(session), 0, {}, 1 << 30).changes
        memories = {change.record for change in changes if change.kind == "memory"}
        purged = {change.record for change in changes if change.erased or change.op == "purge"}
        held = {
            member.own_record.id: member for member in title_groups.read_members(session, sorted(memories - purged))
        }
        for member in title_groups.read_members(session, sorted(purged & memories)):
            must_hold_no_superseded(member.all_states)
    said = read_writes(changes)
    for (record, name), written in said.items():
        if name in MEMORY_MERGE_SCHEMA.reviving_fields:
            states = {one.stamp for one in said[record, "state"]}
            assert {one.stamp for one in written} <= states, "an edit does not outlive an older deletion"
        if record in held:
            found = held[record].all_states[name].values
            assert {stamp: canonical_json(value) for stamp, value in found.items()} == find_surviving(written), (
                record,
                name,
            )
    for member in held.values():
        must_show_the_newest(member.own_record, member.all_states)


def must_hold_no_superseded(held: dict[str, FieldState]) -> None:
    """Assert that a purge also removed the names of tags and keys."""
    if field_versions.PURGED in held:
        floor = max(stamp.time for stamp in held[field_versions.PURGED].values)
        words = [cell for name, cell in held.items() if name.startswith(("tags:", "metadata:", "extra:"))]
        assert all(stamp.time > floor for cell in words for stamp in cell.values), "a purge left something"


def must_show_the_newest(own: Memory, held: dict[str, Any]) -> None:
    for name in ("content", "title", "namespace", "state", "priority"):
        assert getattr(own, name) == held[name].values[max(held[name].values)], (own.id, name)
    tags = {name[5:] for name, cell in held.items() if name.startswith("tags:") and True in cell.values.values()}
    assert set(own.tags) == tags


def read_writes(changes: list[Change]) -> dict[tuple[str, str], list[CellWrite]]:
    """Collect the writes of all changes per field and memory."""
    found: dict[tuple[str, str], list[CellWrite]] = defaultdict(list)
    for change in changes:
        if change.kind != "memory" or change.erased:
            continue
        if change.delta is None:
            raw = msgspec.json.decode(change.body or "")
            record = msgspec.convert(raw, Memory)
            unknown = {name: value for name, value in raw.items() if name not in record.__struct_fields__}
            for name, value in {**unknown, **field_versions.flatten(MEMORY_MERGE_SCHEMA, record)}.items():
                if value is not None:
                    seen = {change.origin: change.at}
                    found[change.record, name].append(CellWrite(change.stamp, value, seen, set()))
        else:
            for name, cell in field_versions.decode_states(change.delta.encode()).items():
                kept = {stamp for stamp, value in cell.values.items() if value is AWAITED}
                found[change.record, name].append(CellWrite(change.stamp, cell.values[change.stamp], cell.seen, kept))
    return found


def find_surviving(written: list[CellWrite]) -> dict[Stamp, bytes]:
    """Return the values that no other write replaced."""
    return {
        one.stamp: canonical_json(one.value)
        for one in written
        if not any(
            other.stamp != one.stamp
            and other.seen.get(one.stamp.origin, -1) >= one.stamp.time
            and one.stamp not in other.kept
            for other in written
        )
    }


def must_find(world: World) -> None:
    """Assert that no content is lost: each is shown, a conflict, or of a memory that is not live."""
    store = world.stores[0]
    with store.ctx.reading() as session:
        ids = [row[1] for row in session.rows("record_list") if row[0] == "memory"]
        held = title_groups.read_members(session, ids)
        gone = {row[0] for row in session.query_sql("select id from memory where collected_at is not null", {})}
    live = [member for member in held if member.own_record.state == "live" and member.own_record.id not in gone]
    away = [member for member in held if member.own_record.state != "live" or member.own_record.id in gone]
    found = {memory.content for memory in store.list(limit=200).memories}
    sides = [side for one in store.conflicts(limit=1000).conflicts for side in (one.shown, one.other)]
    found |= {side.value for side in sides if isinstance(side.value, str)}
    hidden = {value for member in live for value in member.all_states["content"].values.values()} - found - {""}
    assert not hidden, f"neither shown nor a conflict: {hidden}"
    put_away = {value for member in away for value in member.all_states["content"].values.values()}
    assert not world.texts - found - put_away, f"lost: {world.texts - found - put_away}"
    shown = {memory.id for memory in store.list(limit=200).memories}
    assert not shown & {member.own_record.id for member in away}, "something that was deleted is alive"
