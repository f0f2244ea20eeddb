"""Per-field merge state of a record, stored next to its columns.

A new row has one stamp for all fields, so only that base is stored. A field that was written later, or has more values
than its column shows, is stored in full.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from holdfast.kernel.msgspec_lock import register_type
from holdfast.kernel.records.change import MAX_NAME_CHARS, MAX_NUMBER
from holdfast.kernel.records.merge import (
    AWAITED,
    FieldState,
    canonical_json,
    is_present,
    pick_visible,
    to_delta,
    write_value,
)
from holdfast.kernel.timestamps import Stamp

R = TypeVar("R", bound=Struct)
Time = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Origin = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]

_PLAIN = {type(None), str, int, float, bool}

PURGED = "purged"
"""Field written by a purge: older elements of sets and maps are dropped."""


class MergeSchema(NamedTuple):
    """How the fields of a record kind merge."""

    conflict_fields: tuple[str, ...]
    """The newest value is shown; a different concurrent one is a conflict."""
    lww_fields: tuple[str, ...] = ()
    """The newest value wins, without a conflict."""
    max_fields: tuple[str, ...] = ()
    """The greatest value wins, regardless of time."""
    set_fields: tuple[str, ...] = ()
    """One state per element."""
    map_fields: tuple[str, ...] = ()
    """One state per key; null means removed."""
    reviving_fields: tuple[str, ...] = ()
    """An edit of these fields also writes `state`, so that it wins over an older deletion."""
    local_keys: tuple[str, ...] = ()
    """Map keys that are local to this store and never replicated."""


class WireValue(NamedTuple):
    """A value with its stamp on the wire."""

    time: Time
    origin: Origin
    value: Any
    is_awaited: int = 0
    """1: only the stamp is sent; the value comes with its own change."""


class WireState(NamedTuple):
    """A field state on the wire."""

    values: list[WireValue]
    seen: dict[Origin, Time]


WireStates = dict[str, WireState]


class FieldVersions(NamedTuple):
    base: Stamp
    own: dict[str, FieldState]

    def state_of(self, name: str, value: Any) -> FieldState:
        """Return the state of a field, given the value of its column (None: no such element)."""
        if name in self.own:
            return self.own[name]
        return (
            FieldState({self.base: value}, {self.base.origin: self.base.time})
            if value is not None
            else FieldState({}, {})
        )

    def all_states(self, shows: Mapping[str, Any]) -> dict[str, FieldState]:
        """Return the states of all fields, given the values of the columns; unknown fields included."""
        base, seen, nothing = self.base, {self.base.origin: self.base.time}, FieldState({}, {})
        return {n: nothing if v is None else FieldState({base: v}, seen) for n, v in shows.items()} | self.own

    def seen_times(self, names: Mapping[str, Any]) -> list[int]:
        """Return all times seen by these fields: a new stamp must be later."""
        return [time for name, value in names.items() for time in self.state_of(name, value).seen.values()]


def flatten(schema: MergeSchema, record: Any) -> dict[str, Any]:
    """Return the shown value of every field, with one field per set element and map key."""
    names = (*schema.conflict_fields, *schema.lww_fields, *schema.max_fields)
    flat = {name: value if type(value := getattr(record, name)) in _PLAIN else to_plain(value) for name in names}
    for name in schema.set_fields:
        flat.update((f"{name}:{element}", True) for element in getattr(record, name))
    for name in schema.map_fields:
        flat.update((f"{name}:{key}", value) for key, value in getattr(record, name).items() if value is not None)
    for name in schema.local_keys:
        flat.pop(name, None)
    return flat


def to_plain(value: Any) -> Any:
    """Convert tuples and structs to JSON values."""
    if type(value) in _PLAIN:
        return value
    return [to_plain(item) for item in value] if isinstance(value, tuple) else msgspec.to_builtins(value)


def create_states(schema: MergeSchema, record: Any, stamp: Stamp, unknown: Mapping[str, Any]) -> dict[str, FieldState]:
    """Build the states of a new record: every value under one stamp, unknown fields included."""
    flat = {**unknown, **flatten(schema, record)}
    seen = {stamp.origin: stamp.time}
    return {name: FieldState({stamp: value}, seen) for name, value in flat.items() if value is not None}


def rebuild_record(schema: MergeSchema, record: R, shows: Mapping[str, Any]) -> R:
    """Return the record with the given shown values; existing elements keep their order."""
    fields: dict[str, Any] = {
        name: shows.get(name) for name in (*schema.conflict_fields, *schema.lww_fields, *schema.max_fields)
    }
    for name in schema.set_fields:
        there = [cell[len(name) + 1 :] for cell, value in shows.items() if cell.startswith(f"{name}:") and value]
        held = [element for element in getattr(record, name) if element in there]
        fields[name] = (*held, *sorted(set(there) - set(held)))
    for name in schema.map_fields:
        fields[name] = {
            cell[len(name) + 1 :]: value
            for cell, value in shows.items()
            if cell.startswith(f"{name}:") and value is not None
        }
        kept = {key: value for key, value in getattr(record, name).items() if f"{name}:{key}" in schema.local_keys}
        fields[name].update(kept)
    return msgspec.convert({**msgspec.structs.asdict(record), **fields}, type(record))


def visible_values(schema: MergeSchema, states: Mapping[str, Iterable[FieldState]]) -> dict[str, Any]:
    """Return the shown value of each field, merged over the states of one record or of a title group."""
    found = {name: _visible_value(schema, name, list(many)) for name, many in states.items()}
    if PURGED in states and not _written_since_purge(schema, states):
        found["state"] = "deleted"
    return found


def _written_since_purge(schema: MergeSchema, states: Mapping[str, Iterable[FieldState]]) -> bool:
    """Whether a purged record has new content; a restore without content does not revive it."""
    purges = {stamp for cell in states[PURGED] for stamp in cell.values}
    return (
        any(max(cell.values) not in purges for cell in states.get(schema.reviving_fields[0], ()))
        if schema.reviving_fields
        else False
    )


def _visible_value(schema: MergeSchema, name: str, states: list[FieldState]) -> Any:
    if name.split(":", 1)[0] in schema.set_fields:
        return is_present(states)
    if name in schema.max_fields:
        return max((value for cell in states for value in cell.values.values() if value is not AWAITED), default=0)
    return pick_visible(states)[0]


def losing_values(schema: MergeSchema, name: str, states: Iterable[FieldState]) -> list[tuple[Stamp, Any]]:
    """Return the conflicts of a field: values that lost the merge and were never replaced knowingly."""
    if name in schema.conflict_fields or name.split(":", 1)[0] in schema.map_fields:
        return pick_visible(states)[1]
    return []


def diff_fields(schema: MergeSchema, before: Any, after: Any) -> dict[str, tuple[Any, Any]]:
    """Compare two records by field: name -> (old, new). A removed element becomes False, a removed key null."""
    old, new = flatten(schema, before), flatten(schema, after)
    found = {n: (old.get(n), v) for n, v in new.items() if n not in old or canonical_json(old[n]) != canonical_json(v)}
    for name in old.keys() - new.keys():
        found[name] = (old[name], False if name.split(":", 1)[0] in schema.set_fields else None)
    if any(name in found for name in schema.reviving_fields) and "state" not in found:
        found["state"] = (old["state"], new["state"])
    return found


def apply_edits(
    schema: MergeSchema, versions: FieldVersions, edits: Mapping[str, tuple[Any, Any]], stamp: Stamp
) -> tuple[FieldVersions, bytes]:
    """Apply an edit; return the new states and the delta to send."""
    own, travelling = dict(versions.own), {}
    for name, (old, new) in edits.items():
        all_replaced = name in (*schema.lww_fields, *schema.max_fields) or name.split(":", 1)[0] in schema.set_fields
        own[name] = write_value(versions.state_of(name, old), stamp, new, None if all_replaced else [old])
        travelling[name] = to_delta(own[name], stamp)
    return FieldVersions(versions.base, own), encode_states(travelling)


def _encode_state(state: FieldState) -> list[Any]:
    values = [[s.time, s.origin, None, 1] if v is AWAITED else [s.time, s.origin, v] for s, v in state.values.items()]
    return [values, state.seen]


def _decode_state(raw: list[Any]) -> FieldState:
    values, seen = raw
    return FieldState({Stamp(v[0], v[1]): AWAITED if len(v) > 3 else v[2] for v in values}, seen)


def encode_states(states: Mapping[str, FieldState]) -> bytes:
    return msgspec.json.encode({name: _encode_state(cell) for name, cell in states.items()})


def decode_states(raw: bytes) -> dict[str, FieldState]:
    """Decode states from the wire; raises msgspec.ValidationError."""
    register_type(WireStates)
    written = msgspec.json.decode(raw, type=WireStates)
    return {name: FieldState(_decode_values(values), seen) for name, (values, seen) in written.items()}


def _decode_values(written: Iterable[WireValue]) -> dict[Stamp, Any]:
    return {Stamp(time, origin): AWAITED if is_awaited else value for time, origin, value, is_awaited in written}


def build_purge(
    schema: MergeSchema,
    versions: FieldVersions,
    shows: Mapping[str, Any],
    left: Struct,
    stamp: Stamp,
    known: Mapping[str, int],
) -> bytes:
    """Build the delta of a purge: every field is overwritten, and everything seen so far is marked as seen."""
    held, after = versions.all_states(shows), flatten(schema, left)
    names = (*schema.conflict_fields, *schema.lww_fields, *schema.max_fields)
    written = {name: write_value(held.get(name, FieldState({}, {})), stamp, after.get(name), None) for name in names}
    seen = dict(known)
    for cell in held.values():
        for origin, time in cell.seen.items():
            seen[origin] = max(seen.get(origin, 0), time)
    written[PURGED] = FieldState({stamp: msgspec.to_builtins(left)}, {**seen, stamp.origin: stamp.time})
    return encode_states(written)


def drop_purged(schema: MergeSchema, states: Mapping[str, FieldState]) -> dict[str, FieldState]:
    """Drop elements older than the last purge: even their names can reveal content."""
    if PURGED not in states:
        return dict(states)
    floor = max(stamp.time for stamp in states[PURGED].values)
    kept = {}
    for name, cell in states.items():
        if name.split(":", 1)[0] in (*schema.set_fields, *schema.map_fields):
            cell = FieldState({stamp: value for stamp, value in cell.values.items() if stamp.time > floor}, cell.seen)
            if not cell.values:
                continue
        kept[name] = cell
    return kept


def minimize(versions: FieldVersions, shows: Mapping[str, Any]) -> FieldVersions:
    """Drop states that follow from the base stamp and the columns."""
    plain_ones = FieldVersions(versions.base, {})
    own = {name: cell for name, cell in versions.own.items() if cell != plain_ones.state_of(name, shows.get(name))}
    return FieldVersions(versions.base, own)


def pack(versions: FieldVersions, shows: Mapping[str, Any]) -> bytes:
    """Encode for the row; values equal to their column are left out."""
    own = {}
    for name, cell in versions.own.items():
        raw = _encode_state(cell)
        if name in shows:
            column = canonical_json(shows[name])
            raw[0] = [v[:2] if len(v) == 3 and canonical_json(v[2]) == column else v for v in raw[0]]
        own[name] = raw
    return msgspec.json.encode([versions.base.time, versions.base.origin, own] if own else versions.base)


def unpack(raw: bytes, shows: Mapping[str, Any]) -> FieldVersions:
    time, origin, *rest = msgspec.json.decode(raw)
    own = {}
    for name, (values, seen) in (rest[0] if rest else {}).items():
        own[name] = _decode_state([[v if len(v) > 2 else [*v, shows.get(name)] for v in values], seen])
    return FieldVersions(Stamp(time, origin), own)
