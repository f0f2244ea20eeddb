"""Conflicts: concurrent values that lost the merge and were never replaced knowingly. The same on every node."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.kernel import ids
from holdfast.kernel.clock import Stamp
from holdfast.kernel.journal.kinds import MEMORY, Kind, R
from holdfast.kernel.records import field_versions as cells
from holdfast.kernel.records.memory import MEMORY_SHAPE
from holdfast.kernel.records.merge import Cell
from holdfast.kernel.storage.port import Session

EMPTY = Cell({}, {})


def id_of(record: str, cell: str, stamp: Stamp) -> str:
    """Derive the id of a conflict, the same on every node."""
    return ids.derived("conflict", record, cell, str(stamp.time), stamp.origin)


def all_of(session: Session) -> set[str]:
    """Return the ids of all open conflicts."""
    return {row[0] for row in session.rows("conflict_ids")}


def found_in(session: Session, now: int, kind: Kind[R], record: Any, held: cells.Cells) -> int:
    """Store the conflicts within one record and return their number."""
    session.do("conflict_clear", record=record.id, kind=kind.name)
    found = [
        (record.id, name, stamp)
        for name, cell in held.own.items()
        if len(cell.values) > 1
        for stamp in _lost(kind.shape, name, [cell], _purges([held.own]))
    ]
    _keep(session, now, kind, kind.about(record), found)
    return len(found)


def found_among(
    session: Session, now: int, held: Sequence[tuple[str, Mapping[str, Cell]]], gathered: Mapping[str, list[Cell]]
) -> None:
    """Store the conflicts of a title group, given as ids with their field states."""
    for id, _ in held:
        session.do("conflict_clear", record=id, kind="memory")
    purges = _purges([own for _, own in held])
    lost = {name: _lost(MEMORY_SHAPE, name, many, purges) for name, many in gathered.items()}
    for id, own in held:
        stamps = ((name, stamp) for name, cell in own.items() for stamp in cell.values)
        there = [(id, name, stamp) for name, stamp in stamps if stamp in lost[name]]
        _keep(session, now, MEMORY, id, there)


def _lost(shape: cells.Shape, name: str, many: Sequence[Cell], purges: set[Stamp]) -> set[Stamp]:
    """Return the stamps of losing values. Empty fields written by a purge are not conflicts, except for `state`."""
    lost = {stamp for stamp, _ in cells.losers(shape, name, many)}
    return lost if name == "state" else lost - purges


def _purges(held: Sequence[Mapping[str, Cell]]) -> set[Stamp]:
    return {stamp for all_cells in held for stamp in all_cells.get(cells.PURGED, EMPTY).values}


def _keep(session: Session, now: int, kind: Kind[R], about: str | None, found: list[tuple[str, str, Stamp]]) -> None:
    session.many(
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
                "now": now,
            }
            for record, name, stamp in found
        ),
    )
