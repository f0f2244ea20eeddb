"""Read full record snapshots, for peers that can no longer get the single changes."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.access.model import Grant
from holdfast.features.graph.model import Alias
from holdfast.features.namespaces.model import Standard
from holdfast.features.reflections.invalidation import Invalidation
from holdfast.features.skills.model import SKILL_VERSION, Skill
from holdfast.features.sync.snapshot import RecordSnapshot
from holdfast.kernel.journal import title_groups
from holdfast.kernel.journal.kinds import KINDS, MEMORY, Kind
from holdfast.kernel.journal.transaction import body_text
from holdfast.kernel.records import field_versions
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import IMPORTED_FROM, Memory
from holdfast.kernel.records.merge import FieldState, drop_empty
from holdfast.kernel.storage.port import Session


def read_snapshot(session: Session, kind: str, id: str) -> RecordSnapshot | None:
    """Return the snapshot of a record in any state, or None if it is missing."""
    loaded = _load_record(session, KINDS[kind], id)
    return _build_snapshot(KINDS[kind], *loaded) if loaded else None


def read_fields(session: Session, kind: str, id: str) -> dict[str, FieldState] | None:
    """Return all field versions of a record in any state, or None if it is missing."""
    loaded = _load_record(session, KINDS[kind], id)
    return _all_fields(KINDS[kind], *loaded) if loaded else None


def _all_fields(kind: Kind[Any], own: Any, held: field_versions.FieldVersions) -> dict[str, FieldState]:
    return drop_empty(held.all_states(field_versions.flatten(kind.merge_schema, own)))


def _build_snapshot(kind: Kind[Any], own: Any, held: field_versions.FieldVersions) -> RecordSnapshot:
    return RecordSnapshot(
        kind=kind.name,
        record=own.id,
        about=kind.about(own),
        at=held.base.time,
        origin=held.base.origin,
        body=body_text(_restore_author(own)),
        cells=field_versions.encode_states(_all_fields(kind, own, held)).decode(),
    )


def _load_record(session: Session, kind: Kind[Any], id: str) -> tuple[Any, field_versions.FieldVersions] | None:
    if kind.name == "memory":
        members = title_groups.read_members(session, [id])
        return (members[0].own_record, members[0].versions) if members else None
    row, raw = session.row(f"{kind.name}_get", id=id), session.row(f"{kind.name}_cells", id=id)
    if row is None or raw is None:
        return None
    record = kind.load(row)
    return record, field_versions.unpack(raw[0], field_versions.flatten(kind.merge_schema, record))


def _restore_author(record: Any) -> Any:
    """Return a memory with its first author; the local owner is not replicated."""
    if not isinstance(record, Memory) or IMPORTED_FROM not in record.extra:
        return record
    extra = {key: value for key, value in record.extra.items() if key != IMPORTED_FROM}
    return replace(record, agent=record.extra[IMPORTED_FROM], extra=extra)


def read_with_required(session: Session, kind: str, id: str) -> list[RecordSnapshot]:
    """Return the snapshots of the records that a record requires, then its own."""
    loaded = _load_record(session, KINDS[kind], id)
    if loaded is None:
        return []
    ends = [read_snapshot(session, end.name, one) for end, one in list_required(loaded[0])]
    return [*(state for state in ends if state is not None), _build_snapshot(KINDS[kind], *loaded)]


def list_required(record: Struct) -> list[tuple[Kind[Any], str]]:
    """List the records that a record requires."""
    match record:
        case Link():
            return [(MEMORY, record.source), (MEMORY, record.target)]
        case Alias():
            return [(MEMORY, record.entity)]
        case Grant() | Standard():
            return [(MEMORY, record.memory)]
        case Invalidation():
            return [(MEMORY, record.dependent)]
        case Skill():
            return [(SKILL_VERSION, record.current)]
        case _:
            return []
