"""Per-field merge state of a record, stored next to its columns.

A new row has one stamp for all fields, so only that base is stored. A field that was written later, or has more values
than its column shows, is stored in full.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from holdfast.kernel.clock import Stamp
from holdfast.kernel.msgspec_lock import learn
from holdfast.kernel.records.change import MAX_NAME_CHARS, MAX_NUMBER
from holdfast.kernel.records.merge import AWAITED, Cell, canonical, delta, present, shown, write

R = TypeVar("R", bound=Struct)
Time = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Origin = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]

_PLAIN = {type(None), str, int, float, bool}

PURGED = "purged"
"""Field written by a purge: older elements of sets and maps are dropped."""


class Shape(NamedTuple):
    """How the fields of a record kind merge."""

    registers: tuple[str, ...]
    """The newest value is shown; a different concurrent one is a conflict."""
    quiet: tuple[str, ...] = ()
    """The newest value wins, without a conflict."""
    highest: tuple[str, ...] = ()
    """The greatest value wins, regardless of time."""
    sets: tuple[str, ...] = ()
    """One state per element."""
    maps: tuple[str, ...] = ()
    """One state per key; null means removed."""
    reviving: tuple[str, ...] = ()
    """An edit of these fields also writes `state`, so that it wins over an older deletion."""
    here: tuple[str, ...] = ()
    """Map keys that are local to this store and never replicated."""


class WrittenValue(NamedTuple):
    """A value with its stamp on the wire."""

    time: Time
    origin: Origin
    value: Any
    is_awaited: int = 0
    """1: only the stamp is sent; the value comes with its own change."""


class WrittenCell(NamedTuple):
    """A field state on the wire."""

    values: list[WrittenValue]
    seen: dict[Origin, Time]


WrittenCells = dict[str, WrittenCell]


class Cells(NamedTuple):
    base: Stamp
    own: dict[str, Cell]

    def cell(self, name: str, value: Any) -> Cell:
        """Return the state of a field, given the value of its column (None: no such element)."""
        if name in self.own:
            return self.own[name]
        return Cell({self.base: value}, {self.base.origin: self.base.time}) if value is not None else Cell({}, {})

    def all(self, shows: Mapping[str, Any]) -> dict[str, Cell]:
        """Return the states of all fields, given the values of the columns; unknown fields included."""
        base, seen, nothing = self.base, {self.base.origin: self.base.time}, Cell({}, {})
        return {n: nothing if v is None else Cell({base: v}, seen) for n, v in shows.items()} | self.own

    def floors(self, names: Mapping[str, Any]) -> list[int]:
        """Return all times seen by these fields: a new stamp must be later."""
        return [time for name, value in names.items() for time in self.cell(name, value).seen.values()]


def flatten(shape: Shape, record: Any) -> dict[str, Any]:
    """Return the shown value of every field, with one field per set element and map key."""
    names = (*shape.registers, *shape.quiet, *shape.highest)
    flat = {name: value if type(value := getattr(record, name)) in _PLAIN else plain(value) for name in names}
    for name in shape.sets:
        flat.update((f"{name}:{element}", True) for element in getattr(record, name))
    for name in shape.maps:
        flat.update((f"{name}:{key}", value) for key, value in getattr(record, name).items() if value is not None)
    for name in shape.here:
        flat.pop(name, None)
    return flat


def plain(value: Any) -> Any:
    """Convert tuples and structs to JSON values."""
    if type(value) in _PLAIN:
        return value
    return [plain(item) for item in value] if isinstance(value, tuple) else msgspec.to_builtins(value)


def made(shape: Shape, record: Any, stamp: Stamp, unknown: Mapping[str, Any]) -> dict[str, Cell]:
    """Build the states of a new record: every value under one stamp, unknown fields included."""
    flat = {**unknown, **flatten(shape, record)}
    seen = {stamp.origin: stamp.time}
    return {name: Cell({stamp: value}, seen) for name, value in flat.items() if value is not None}


def rebuilt(shape: Shape, record: R, shows: Mapping[str, Any]) -> R:
    """Return the record with the given shown values; existing elements keep their order."""
    fields: dict[str, Any] = {name: shows.get(name) for name in (*shape.registers, *shape.quiet, *shape.highest)}
    for name in shape.sets:
        there = [cell[len(name) + 1 :] for cell, value in shows.items() if cell.startswith(f"{name}:") and value]
        held = [element for element in getattr(record, name) if element in there]
        fields[name] = (*held, *sorted(set(there) - set(held)))
    for name in shape.maps:
        fields[name] = {
            cell[len(name) + 1 :]: value
            for cell, value in shows.items()
            if cell.startswith(f"{name}:") and value is not None
        }
        kept = {key: value for key, value in getattr(record, name).items() if f"{name}:{key}" in shape.here}
        fields[name].update(kept)
    return msgspec.convert({**msgspec.structs.asdict(record), **fields}, type(record))


def shows(shape: Shape, held: Mapping[str, Iterable[Cell]]) -> dict[str, Any]:
    """Return the shown value of each field, merged over the states of one record or of a title group."""
    found = {name: _shows(shape, name, list(many)) for name, many in held.items()}
    if PURGED in held and not _said_since(shape, held):
        found["state"] = "deleted"
    return found


def _said_since(shape: Shape, held: Mapping[str, Iterable[Cell]]) -> bool:
    """Whether a purged record has new content; a restore without content does not revive it."""
    purges = {stamp for cell in held[PURGED] for stamp in cell.values}
    return any(max(cell.values) not in purges for cell in held.get(shape.reviving[0], ())) if shape.reviving else False


def _shows(shape: Shape, name: str, many: list[Cell]) -> Any:
    if name.split(":", 1)[0] in shape.sets:
        return present(many)
    if name in shape.highest:
        return max((value for cell in many for value in cell.values.values() if value is not AWAITED), default=0)
    return shown(many)[0]


def losers(shape: Shape, name: str, many: Iterable[Cell]) -> list[tuple[Stamp, Any]]:
    """Return the conflicts of a field: values that lost the merge and were never replaced knowingly."""
    if name in shape.registers or name.split(":", 1)[0] in shape.maps:
        return shown(many)[1]
    return []


def changed(shape: Shape, before: Any, after: Any) -> dict[str, tuple[Any, Any]]:
    """Compare two records by field: name -> (old, new). A removed element becomes False, a removed key null."""
    old, new = flatten(shape, before), flatten(shape, after)
    found = {n: (old.get(n), v) for n, v in new.items() if n not in old or canonical(old[n]) != canonical(v)}
    for name in old.keys() - new.keys():
        found[name] = (old[name], False if name.split(":", 1)[0] in shape.sets else None)
    if any(name in found for name in shape.reviving) and "state" not in found:
        found["state"] = (old["state"], new["state"])
    return found


def edit(shape: Shape, cells: Cells, edits: Mapping[str, tuple[Any, Any]], stamp: Stamp) -> tuple[Cells, bytes]:
    """Apply an edit; return the new states and the delta to send."""
    own, travelling = dict(cells.own), {}
    for name, (old, new) in edits.items():
        all_replaced = name in (*shape.quiet, *shape.highest) or name.split(":", 1)[0] in shape.sets
        own[name] = write(cells.cell(name, old), stamp, new, None if all_replaced else [old])
        travelling[name] = delta(own[name], stamp)
    return Cells(cells.base, own), encode(travelling)


def _plain_cell(cell: Cell) -> list[Any]:
    values = [[s.time, s.origin, None, 1] if v is AWAITED else [s.time, s.origin, v] for s, v in cell.values.items()]
    return [values, cell.seen]


def _cell(raw: list[Any]) -> Cell:
    values, seen = raw
    return Cell({Stamp(v[0], v[1]): AWAITED if len(v) > 3 else v[2] for v in values}, seen)


def encode(cells: Mapping[str, Cell]) -> bytes:
    return msgspec.json.encode({name: _plain_cell(cell) for name, cell in cells.items()})


def decode(raw: bytes) -> dict[str, Cell]:
    """Decode states from the wire; raises msgspec.ValidationError."""
    learn(WrittenCells)
    written = msgspec.json.decode(raw, type=WrittenCells)
    return {name: Cell(_values_of(values), seen) for name, (values, seen) in written.items()}


def _values_of(written: Iterable[WrittenValue]) -> dict[Stamp, Any]:
    return {Stamp(time, origin): AWAITED if is_awaited else value for time, origin, value, is_awaited in written}


def purge(
    shape: Shape, cells: Cells, shows: Mapping[str, Any], left: Struct, stamp: Stamp, known: Mapping[str, int]
) -> bytes:
    """Build the delta of a purge: every field is overwritten, and everything seen so far is marked as seen."""
    held, after = cells.all(shows), flatten(shape, left)
    names = (*shape.registers, *shape.quiet, *shape.highest)
    written = {name: write(held.get(name, Cell({}, {})), stamp, after.get(name), None) for name in names}
    seen = dict(known)
    for cell in held.values():
        for origin, time in cell.seen.items():
            seen[origin] = max(seen.get(origin, 0), time)
    written[PURGED] = Cell({stamp: msgspec.to_builtins(left)}, {**seen, stamp.origin: stamp.time})
    return encode(written)


def swept(shape: Shape, held: Mapping[str, Cell]) -> dict[str, Cell]:
    """Drop elements older than the last purge: even their names can reveal content."""
    if PURGED not in held:
        return dict(held)
    floor = max(stamp.time for stamp in held[PURGED].values)
    kept = {}
    for name, cell in held.items():
        if name.split(":", 1)[0] in (*shape.sets, *shape.maps):
            cell = Cell({stamp: value for stamp, value in cell.values.items() if stamp.time > floor}, cell.seen)
            if not cell.values:
                continue
        kept[name] = cell
    return kept


def least(cells: Cells, shows: Mapping[str, Any]) -> Cells:
    """Drop states that follow from the base stamp and the columns."""
    plain_ones = Cells(cells.base, {})
    own = {name: cell for name, cell in cells.own.items() if cell != plain_ones.cell(name, shows.get(name))}
    return Cells(cells.base, own)


def pack(cells: Cells, shows: Mapping[str, Any]) -> bytes:
    """Encode for the row; values equal to their column are left out."""
    own = {}
    for name, cell in cells.own.items():
        raw = _plain_cell(cell)
        if name in shows:
            column = canonical(shows[name])
            raw[0] = [v[:2] if len(v) == 3 and canonical(v[2]) == column else v for v in raw[0]]
        own[name] = raw
    return msgspec.json.encode([cells.base.time, cells.base.origin, own] if own else cells.base)


def unpack(raw: bytes, shows: Mapping[str, Any]) -> Cells:
    time, origin, *rest = msgspec.json.decode(raw)
    own = {}
    for name, (values, seen) in (rest[0] if rest else {}).items():
        own[name] = _cell([[v if len(v) > 2 else [*v, shows.get(name)] for v in values], seen])
    return Cells(Stamp(time, origin), own)
