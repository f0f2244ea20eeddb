"""The merge: state-based, one cell at a time. `join` is the only one there is.

A cell holds the values that nobody has knowingly replaced, each under its stamp, and what has been seen of every
origin. The greatest stamp shows; the other, different values are the conflicts.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.kernel.clock import Stamp

MOST_LOST = 16
"""Values of one field that are kept beside the one that shows."""
Keep = Literal["shown", "other", "mine", "theirs", "both", "edited"]
"""How a conflict is settled."""


class Awaited:
    """A value that a change names and whose own change has not come yet."""

    def __repr__(self) -> str:
        return "AWAITED"


AWAITED = Awaited()

_sorted_json = msgspec.json.Encoder(order="deterministic")


class Cell(NamedTuple):
    values: dict[Stamp, Any]
    seen: dict[str, int]


def canonical(value: Any) -> bytes:
    """Equal exactly for equal JSON; in Python True == 1."""
    return b"" if value is AWAITED else _sorted_json.encode(value)


def join(a: Cell, b: Cell) -> Cell:
    """What two replicas of a cell know together: commutative, associative, idempotent."""
    values: dict[Stamp, Any] = {}
    for mine, other in ((a, b), (b, a)):
        for stamp, value in mine.values.items():
            if stamp in other.values:
                values[stamp] = max(value, other.values[stamp], key=canonical)
            elif stamp.time > other.seen.get(stamp.origin, -1):
                values[stamp] = value
    return Cell(values, {o: max(a.seen.get(o, -1), b.seen.get(o, -1)) for o in {*a.seen, *b.seen}})


def write(cell: Cell, stamp: Stamp, new: Any, replaces: Sequence[Any] | None) -> Cell:
    """Put `new` in place of the values its writer saw (`None`: of all); other values stay, as conflicts."""
    kept: dict[Stamp, Any] = {}
    if replaces is not None:
        gone = {canonical(value) for value in (*replaces, new)}
        kept = {s: v for s, v in cell.values.items() if canonical(v) not in gone}
    return Cell({**kept, stamp: new}, {**cell.seen, stamp.origin: stamp.time})


def delta(cell: Cell, stamp: Stamp) -> Cell:
    """What travels: the author's own value; the losers it kept are only named."""
    return Cell({s: v if s == stamp else AWAITED for s, v in cell.values.items()}, cell.seen)


def shown(cells: Iterable[Cell]) -> tuple[Any, list[tuple[Stamp, Any]]]:
    """The value that shows over the cells of one title, and the conflicts beside it."""
    known = [(s, canonical(v), v) for cell in cells for s, v in cell.values.items() if v is not AWAITED]
    if not known:
        return None, []
    best = max(known, key=lambda item: item[:2])
    return best[2], [(s, v) for s, text, v in known if text != best[1]]


def present(cells: Iterable[Cell]) -> bool:
    """Whether an element is there: a concurrent add beats a remove."""
    return any(v is True for cell in cells for v in cell.values.values())


def filled(held: Mapping[str, Cell]) -> dict[str, Cell]:
    """The cells that hold something; a column that never had a value has none."""
    return {name: cell for name, cell in held.items() if cell.values or cell.seen}
