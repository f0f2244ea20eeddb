"""Conflicts: concurrent values that lost the merge and were never replaced knowingly. The same on every node."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.kernel.journal.kinds import MEMORY, Kind, R
from holdfast.kernel.records import field_versions
from holdfast.kernel.records.memory import MEMORY_MERGE_SCHEMA
from holdfast.kernel.records.merge import FieldState
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import Stamp, derive_id

EMPTY_STATE = FieldState({}, {})


def conflict_id(record: str, field: str, stamp: Stamp) -> str:
    """Derive the id of a conflict, the same on every node."""
    return derive_id("conflict", record, field, str(stamp.time), stamp.origin)


def put_record_conflicts(
    session: Session, now: int, kind: Kind[R], record: Any, versions: field_versions.FieldVersions
) -> int:
    """Store the conflicts within one record and return their number."""
    session.do("conflict_clear", record=record.id, kind=kind.name)
    found = [
        (record.id, name, stamp)
        for name, cell in versions.own.items()
        if len(cell.values) > 1
        for stamp in _losing_stamps(kind.merge_schema, name, [cell], _purge_stamps([versions.own]))
    ]
    _put_conflicts(session, now, kind, kind.about(record), found)
    return len(found)


def put_group_conflicts(
    session: Session,
    now: int,
    members: Sequence[tuple[str, Mapping[str, FieldState]]],
    states: Mapping[str, list[FieldState]],
) -> None:
    """Store the conflicts of a title group, given as ids with their field states."""
    for id, _ in members:
        session.do("conflict_clear", record=id, kind="memory")
    purges = _purge_stamps([own for _, own in members])
    lost = {name: _losing_stamps(MEMORY_MERGE_SCHEMA, name, many, purges) for name, many in states.items()}
    for id, own in members:
        stamps = ((name, stamp) for name, cell in own.items() for stamp in cell.values)
        there = [(id, name, stamp) for name, stamp in stamps if stamp in lost[name]]
        _put_conflicts(session, now, MEMORY, id, there)


def _losing_stamps(
    schema: field_versions.MergeSchema, name: str, states: Sequence[FieldState], purges: set[Stamp]
) -> set[Stamp]:
    """Return the stamps of losing values. Empty fields written by a purge are not conflicts, except for `state`."""
    lost = {stamp for stamp, _ in field_versions.losing_values(schema, name, states)}
    return lost if name == "state" else lost - purges


def _purge_stamps(members: Sequence[Mapping[str, FieldState]]) -> set[Stamp]:
    return {stamp for all_cells in members for stamp in all_cells.get(field_versions.PURGED, EMPTY_STATE).values}


def _put_conflicts(
    session: Session, now: int, kind: Kind[R], about: str | None, found: list[tuple[str, str, Stamp]]
) -> None:
    session.many(
        "conflict_put",
        (
            {
                "id": conflict_id(record, name, stamp),
                "kind": kind.name,
                "record": record,
                "about": about,
                "cell": name,
                "at": stamp.time,
                "origin": stamp.origin,
                "now": now,
            }
            for record, name, stamp in found
        ),
    )
