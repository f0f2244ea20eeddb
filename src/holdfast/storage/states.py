"""Records whole, for those who cannot get their changes any more."""

from typing import Any

from msgspec.structs import replace

from ..domain import cells
from ..domain.memory import IMPORTED_FROM, Memory
from ..domain.merge import filled
from ..domain.state import State
from . import titles
from .port import Session
from .records import KINDS, Kind, body_text


def state_of(session: Session, kind: str, id: str) -> State | None:
    """A record with all its cells, in whatever state it is; None if it is not here."""
    found = _held(session, KINDS[kind], id)
    if found is None:
        return None
    own, held = found
    said = held.all(cells.flatten(KINDS[kind].shape, own))
    return State(
        kind=kind,
        record=id,
        about=KINDS[kind].about(own),
        at=held.base.time,
        origin=held.base.origin,
        body=body_text(_first_said(own)),
        cells=cells.encode(filled(said)).decode(),
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
