"""Records whole, for those who cannot get their changes any more."""

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
    """A record with all its cells, in whatever state it is; None if it is not here."""
    found = _held(session, KINDS[kind], id)
    return _state(KINDS[kind], *found) if found else None


def cells_of(session: Session, kind: str, id: str) -> dict[str, Cell] | None:
    """All that a record's cells hold, in whatever state it is; None if it is not here."""
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
    """A memory as its first author's: whose it became here is of this store alone."""
    if not isinstance(record, Memory) or IMPORTED_FROM not in record.extra:
        return record
    extra = {key: value for key, value in record.extra.items() if key != IMPORTED_FROM}
    return replace(record, agent=record.extra[IMPORTED_FROM], extra=extra)


def with_ends(session: Session, kind: str, id: str) -> list[State]:
    """A record whole, after those whole that it cannot be without."""
    found = _held(session, KINDS[kind], id)
    if found is None:
        return []
    ends = [state_of(session, end.name, one) for end, one in ends_of(found[0])]
    return [*(state for state in ends if state is not None), _state(KINDS[kind], *found)]


def ends_of(record: Struct) -> list[tuple[Kind[Any], str]]:
    """What a record cannot be without."""
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
