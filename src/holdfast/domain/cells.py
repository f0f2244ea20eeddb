"""A record's cells, beside its columns.

A fresh row has one stamp for all its cells, so only that base is kept; a cell written later, or holding more than the
value its column shows, is kept whole.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from .clock import Stamp
from .merge import AWAITED, Cell, canonical, delta, write


class Shape(NamedTuple):
    """How the fields of a record kind merge."""

    registers: tuple[str, ...]
    """One value shows; a concurrent other one is a conflict."""
    quiet: tuple[str, ...] = ()
    """The newest value wins without a conflict."""
    sets: tuple[str, ...] = ()
    """A cell per element."""
    maps: tuple[str, ...] = ()
    """A cell per key; null means removed."""
    reviving: tuple[str, ...] = ()
    """An edit of these writes the state again, so that it outlives an older deletion."""


class Cells(NamedTuple):
    base: Stamp
    own: dict[str, Cell]

    def cell(self, name: str, value: Any) -> Cell:
        """The cell of a name, given the value its column shows (None: no such element)."""
        if name in self.own:
            return self.own[name]
        return Cell({self.base: value}, {self.base.origin: self.base.time}) if value is not None else Cell({}, {})

    def floors(self, names: Mapping[str, Any]) -> list[int]:
        """Every time seen in these cells: a new stamp lies above them."""
        return [time for name, value in names.items() for time in self.cell(name, value).seen.values()]


def flatten(shape: Shape, record: Any) -> dict[str, Any]:
    """Every cell's name and the value it shows."""
    flat = {name: plain(getattr(record, name)) for name in (*shape.registers, *shape.quiet)}
    for name in shape.sets:
        flat.update((f"{name}:{element}", True) for element in getattr(record, name))
    for name in shape.maps:
        flat.update((f"{name}:{key}", value) for key, value in getattr(record, name).items())
    return flat


def plain(value: Any) -> Any:
    """Tuples and structs as JSON has them."""
    if value is None or isinstance(value, str | int | float):
        return value
    return [plain(item) for item in value] if isinstance(value, tuple) else msgspec.to_builtins(value)


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
        all_replaced = name in shape.quiet or name.split(":", 1)[0] in shape.sets
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
    return {name: _cell(cell) for name, cell in msgspec.json.decode(raw).items()}


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
