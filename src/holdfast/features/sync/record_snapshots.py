"""Read full record snapshots, for peers that can no longer get the single changes."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.access.model import Grant
from holdfast.features.graph.model import Alias
from holdfast.features.namespaces.model import Standard
from holdfast.features.reflections.invalidation import Invalidation
from holdfast.features.skills.model import SKILL_VERSION, Skill
from holdfast.features.sync.snapshot import State
from holdfast.kernel.journal import title_groups as titles
from holdfast.kernel.journal.kinds import KINDS, MEMORY, Kind
from holdfast.kernel.journal.transaction import body_text
from holdfast.kernel.records import field_versions as cells
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import IMPORTED_FROM, Memory
from holdfast.kernel.records.merge import Cell, filled
from holdfast.kernel.storage.port import Session


def state_of(session: Session, kind: str, id: str) -> State | None:
    """Return the snapshot of a record in any state, or None if it is missing."""
    found = _held(session, KINDS[kind], id)
    return _state(KINDS[kind], *found) if found else None


def cells_of(session: Session, kind: str, id: str) -> dict[str, Cell] | None:
    """Return all field versions of a record in any state, or None if it is missing."""
    found = _held(session, KINDS[kind], id)
    return _said(KINDS[kind], *found) if found else None


def _said(kind: Kind[Any], own: Any, held: cells.Cells) -> dict[str, Cell]:
    return filled(held.all(cells.flatten(kind.shape, own)))


def _state(kind: Kind[Any], own: Any, held: cells.Cells) -> State:
    return State(
        kind=kind.name,
        record=own.id,
        about=kind.about(own),
        at=held.base.time,
        origin=held.base.origin,
        body=body_text(_first_said(own)),
        cells=cells.encode(_said(kind, own, held)).decode(),
    )


def _held(session: Session, kind: Kind[Any], id: str) -> tuple[Any, cells.Cells] | None:
    if kind.name == "memory":
        members = titles.read(session, [id])
        return (members[0].own, members[0].cells) if members else None
    row, raw = session.row(f"{kind.name}_get", id=id), session.row(f"{kind.name}_cells", id=id)
    if row is None or raw is None:
        return None
    record = kind.load(row)
    return record, cells.unpack(raw[0], cells.flatten(kind.shape, record))


def _first_said(record: Any) -> Any:
    """Return a memory with its first author; the local owner is not replicated."""
    if not isinstance(record, Memory) or IMPORTED_FROM not in record.extra:
        return record
    extra = {key: value for key, value in record.extra.items() if key != IMPORTED_FROM}
    return replace(record, agent=record.extra[IMPORTED_FROM], extra=extra)


def with_ends(session: Session, kind: str, id: str) -> list[State]:
    """Return the snapshots of the records that a record requires, then its own."""
    found = _held(session, KINDS[kind], id)
    if found is None:
        return []
    ends = [state_of(session, end.name, one) for end, one in ends_of(found[0])]
    return [*(state for state in ends if state is not None), _state(KINDS[kind], *found)]


def ends_of(record: Struct) -> list[tuple[Kind[Any], str]]:
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
