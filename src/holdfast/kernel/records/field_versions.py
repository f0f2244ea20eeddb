"""A record's cells, beside its columns.

A fresh row has one stamp for all its cells, so only that base is kept; a cell written later, or holding more than the
value its column shows, is kept whole.
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
"""The cell that a purge writes beside all others: what is older than it, of what has a cell by element, is gone."""


class Shape(NamedTuple):
    """How the fields of a record kind merge."""

    registers: tuple[str, ...]
    """One value shows; a concurrent other one is a conflict."""
    quiet: tuple[str, ...] = ()
    """The newest value wins without a conflict."""
    highest: tuple[str, ...] = ()
    """The greatest value wins, whoever wrote it last."""
    sets: tuple[str, ...] = ()
    """A cell per element."""
    maps: tuple[str, ...] = ()
    """A cell per key; null means removed."""
    reviving: tuple[str, ...] = ()
    """An edit of these writes the state again, so that it outlives an older deletion."""
    here: tuple[str, ...] = ()
    """Keys of maps that are of this store alone: no other one hears of them."""


class WrittenValue(NamedTuple):
    """A value of a cell as it travels, under its stamp."""

    time: Time
    origin: Origin
    value: Any
    is_awaited: int = 0
    """1: the value is named alone; its own change brings it."""


class WrittenCell(NamedTuple):
    """A cell as it travels."""

    values: list[WrittenValue]
    seen: dict[Origin, Time]


WrittenCells = dict[str, WrittenCell]


class Cells(NamedTuple):
    base: Stamp
    own: dict[str, Cell]

    def cell(self, name: str, value: Any) -> Cell:
        """The cell of a name, given the value its column shows (None: no such element)."""
        if name in self.own:
            return self.own[name]
        return Cell({self.base: value}, {self.base.origin: self.base.time}) if value is not None else Cell({}, {})

    def all(self, shows: Mapping[str, Any]) -> dict[str, Cell]:
        """Every cell of a record whose columns show these values, those of fields that we do not know included."""
        base, seen, nothing = self.base, {self.base.origin: self.base.time}, Cell({}, {})
        return {n: nothing if v is None else Cell({base: v}, seen) for n, v in shows.items()} | self.own

    def floors(self, names: Mapping[str, Any]) -> list[int]:
        """Every time seen in these cells: a new stamp lies above them."""
        return [time for name, value in names.items() for time in self.cell(name, value).seen.values()]


def flatten(shape: Shape, record: Any) -> dict[str, Any]:
    """Every cell's name and the value it shows."""
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
    """Tuples and structs as JSON has them."""
    if type(value) in _PLAIN:
        return value
    return [plain(item) for item in value] if isinstance(value, tuple) else msgspec.to_builtins(value)


def made(shape: Shape, record: Any, stamp: Stamp, unknown: Mapping[str, Any]) -> dict[str, Cell]:
    """The cells of a record as it was created: every value under one stamp, also those whose fields we do not know."""
    flat = {**unknown, **flatten(shape, record)}
    seen = {stamp.origin: stamp.time}
    return {name: Cell({stamp: value}, seen) for name, value in flat.items() if value is not None}


def rebuilt(shape: Shape, record: R, shows: Mapping[str, Any]) -> R:
    """A record with the values that its cells show; what is there already keeps its order."""
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
    """The value that each name shows over its cells: of one record, or of all that share a title."""
    found = {name: _shows(shape, name, list(many)) for name, many in held.items()}
    if PURGED in held and not _said_since(shape, held):
        found["state"] = "deleted"
    return found


def _said_since(shape: Shape, held: Mapping[str, Iterable[Cell]]) -> bool:
    """Whether a purged record says something again; to bring it back without a word does not revive it."""
    purges = {stamp for cell in held[PURGED] for stamp in cell.values}
    return any(max(cell.values) not in purges for cell in held.get(shape.reviving[0], ())) if shape.reviving else False


def _shows(shape: Shape, name: str, many: list[Cell]) -> Any:
    if name.split(":", 1)[0] in shape.sets:
        return present(many)
    if name in shape.highest:
        return max((value for cell in many for value in cell.values.values() if value is not AWAITED), default=0)
    return shown(many)[0]


def losers(shape: Shape, name: str, many: Iterable[Cell]) -> list[tuple[Stamp, Any]]:
    """The values of a name that nobody has knowingly replaced and that do not show: its conflicts."""
    if name in shape.registers or name.split(":", 1)[0] in shape.maps:
        return shown(many)[1]
    return []


def changed(shape: Shape, before: Any, after: Any) -> dict[str, tuple[Any, Any]]:
    """The cells that differ: name -> (old, new). A removed element becomes False, a removed key null."""
    old, new = flatten(shape, before), flatten(shape, after)
    found = {n: (old.get(n), v) for n, v in new.items() if n not in old or canonical(old[n]) != canonical(v)}
    for name in old.keys() - new.keys():
        found[name] = (old[name], False if name.split(":", 1)[0] in shape.sets else None)
    if any(name in found for name in shape.reviving) and "state" not in found:
        found["state"] = (old["state"], new["state"])
    return found


def edit(shape: Shape, cells: Cells, edits: Mapping[str, tuple[Any, Any]], stamp: Stamp) -> tuple[Cells, bytes]:
    """The cells after an edit, and the delta that travels."""
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
    """Cells as they travel; raises msgspec.ValidationError if anything in them is of another type."""
    learn(WrittenCells)
    written = msgspec.json.decode(raw, type=WrittenCells)
    return {name: Cell(_values_of(values), seen) for name, (values, seen) in written.items()}


def _values_of(written: Iterable[WrittenValue]) -> dict[Stamp, Any]:
    return {Stamp(time, origin): AWAITED if is_awaited else value for time, origin, value, is_awaited in written}


def purge(
    shape: Shape, cells: Cells, shows: Mapping[str, Any], left: Struct, stamp: Stamp, known: Mapping[str, int]
) -> bytes:
    """The delta of a purge: every field anew, and all that is left of what was seen in cells or is known otherwise."""
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
    """The cells without the elements that are older than the last purge: how they were called may say too much."""
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
    """The same cells, without those that follow from the base and the columns."""
    plain_ones = Cells(cells.base, {})
    own = {name: cell for name, cell in cells.own.items() if cell != plain_ones.cell(name, shows.get(name))}
    return Cells(cells.base, own)


def pack(cells: Cells, shows: Mapping[str, Any]) -> bytes:
    """The bytes kept with the row; a value that its column shows is not repeated."""
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
