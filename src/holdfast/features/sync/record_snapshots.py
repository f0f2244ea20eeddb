"""Full record snapshots: read, checked, and sent when the single changes are no longer available."""

from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal import title_groups
from holdfast.kernel.journal.kinds import KINDS, Kind, body_text
from holdfast.kernel.records import field_versions
from holdfast.kernel.records.change import MAX_NUMBER, Change, check_name
from holdfast.kernel.records.field_versions import decode_states
from holdfast.kernel.records.memory import IMPORTED_FROM, Memory
from holdfast.kernel.records.merge import FieldState, drop_empty
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import RECORD_SNAPSHOT, Stamp, is_too_far_ahead

MAX_SNAPSHOT_CHARS = 8 * 1024 * 1024
"""Characters of one record with all its unresolved conflicts."""


class RecordSnapshot(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record with all its field versions. It has no number and no signature: its sender vouches for it."""

    kind: str
    record: str
    about: str | None = None
    at: int
    """The stamp of most of its fields."""
    origin: str
    body: str
    """The record on its own, for the fields that never change."""
    cells: str
    covered: bool = False
    """Whether its changes are within the baselines that its sender sent."""

    @property
    def base(self) -> Stamp:
        return Stamp(self.at, self.origin)


def must_be_whole(state: RecordSnapshot) -> None:
    """Raise Invalid unless a snapshot is well-formed."""
    for field in ("kind", "record", "origin"):
        check_name(field, getattr(state, field))
    if state.about is not None:
        check_name("about", state.about)
    if not 0 <= state.at <= MAX_NUMBER or len(state.cells) + len(state.body) > MAX_SNAPSHOT_CHARS:
        raise Invalid(f"A record snapshot needs a valid time and at most {MAX_SNAPSHOT_CHARS:,} characters.")


def decode_fields(state: RecordSnapshot) -> dict[str, FieldState]:
    """Decode the field versions of a snapshot; raises Invalid if they are inconsistent."""
    try:
        states = decode_states(state.cells.encode())
    except (msgspec.MsgspecError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise Invalid(f"It cannot be read: {error}") from None
    for name, cell in states.items():
        if any(stamp.time > cell.seen.get(stamp.origin, -1) for stamp in cell.values):
            raise Invalid(f"{name}: has a value newer than everything its writers saw.")
    return states


def is_ahead(state: RecordSnapshot, states: dict[str, FieldState], now_ms: int) -> bool:
    """Whether a snapshot has timestamps so far in the future that a clock must be wrong."""
    times = [state.at, *(time for cell in states.values() for time in cell.seen.values())]
    return any(is_too_far_ahead(time, now_ms) for time in times)


def as_change(state: RecordSnapshot) -> Change:
    """Wrap a snapshot as a change, the form that quarantine stores; its number is derived from its record."""
    digest = sha256(msgspec.json.encode([state.kind, state.record])).digest()
    about = {"kind": state.kind, "record": state.record, "about": state.about}
    n = 1 + (int.from_bytes(digest[:7], "big") >> 4)
    encoded = msgspec.json.encode(state).decode()
    return Change(origin=RECORD_SNAPSHOT, n=n, at=state.at, actor="", op=RECORD_SNAPSHOT, delta=encoded, **about)  # type: ignore[arg-type]


def from_change(change: Change) -> RecordSnapshot:
    """Unwrap a snapshot stored as a change."""
    return msgspec.json.decode(change.delta or "", type=RecordSnapshot)


def read_snapshot(session: Session, kind: str, id: str) -> RecordSnapshot | None:
    """Return the snapshot of a record in any state, or None if it is missing."""
    loaded = load_record(session, KINDS[kind], id)
    return build_snapshot(KINDS[kind], *loaded) if loaded else None


def read_fields(session: Session, kind: str, id: str) -> dict[str, FieldState] | None:
    """Return all field versions of a record in any state, or None if it is missing."""
    loaded = load_record(session, KINDS[kind], id)
    return _all_fields(KINDS[kind], *loaded) if loaded else None


def _all_fields(kind: Kind[Any], own: Any, versions: field_versions.FieldVersions) -> dict[str, FieldState]:
    return drop_empty(versions.all_states(field_versions.flatten(kind.merge_schema, own)))


def build_snapshot(kind: Kind[Any], own: Any, versions: field_versions.FieldVersions) -> RecordSnapshot:
    return RecordSnapshot(
        kind=kind.name,
        record=own.id,
        about=kind.about(own),
        at=versions.base.time,
        origin=versions.base.origin,
        body=body_text(_restore_author(own)),
        cells=field_versions.encode_states(_all_fields(kind, own, versions)).decode(),
    )


def load_record(session: Session, kind: Kind[Any], id: str) -> tuple[Any, field_versions.FieldVersions] | None:
    if kind.name == "memory":
        members = title_groups.read_members(session, [id])
        return (members[0].own_record, members[0].versions) if members else None
    row, raw = session.row(f"{kind.name}_get", id=id), session.row(f"{kind.name}_field_versions", id=id)
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
