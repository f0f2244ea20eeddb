"""The merge of concurrent edits: a state-based CRDT per field. `join` is the only merge function.

A field state holds the values that were never replaced knowingly, each under its stamp, and the latest time seen of
every origin. The value with the greatest stamp is shown; other, different values are conflicts.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.kernel.timestamps import Stamp

MAX_CONFLICTS_PER_FIELD = 16
"""Limit of conflicting values per field."""
Resolution = Literal["shown", "other", "mine", "theirs", "both", "edited"]
"""Ways to resolve a conflict."""


class AwaitedValue:
    """Placeholder for a value whose own change has not arrived yet."""

    def __repr__(self) -> str:
        return "AWAITED"


AWAITED = AwaitedValue()

_sorted_json = msgspec.json.Encoder(order="deterministic")


class FieldState(NamedTuple):
    values: dict[Stamp, Any]
    seen: dict[str, int]


def canonical_json(value: Any) -> bytes:
    """Encode so that equal JSON has equal bytes; in Python, True == 1."""
    return b"" if value is AWAITED else _sorted_json.encode(value)


def join(a: FieldState, b: FieldState) -> FieldState:
    """Merge two replicas of a field state: commutative, associative, idempotent."""
    values: dict[Stamp, Any] = {}
    for mine, other in ((a, b), (b, a)):
        for stamp, value in mine.values.items():
            if stamp in other.values:
                values[stamp] = max(value, other.values[stamp], key=canonical_json)
            elif stamp.time > other.seen.get(stamp.origin, -1):
                values[stamp] = value
    return FieldState(values, {o: max(a.seen.get(o, -1), b.seen.get(o, -1)) for o in {*a.seen, *b.seen}})


def write_value(state: FieldState, stamp: Stamp, new: Any, replaces: Sequence[Any] | None) -> FieldState:
    """Replace the values that the writer saw (`None`: all) with `new`; other values stay as conflicts."""
    kept: dict[Stamp, Any] = {}
    if replaces is not None:
        gone = {canonical_json(value) for value in (*replaces, new)}
        kept = {s: v for s, v in state.values.items() if canonical_json(v) not in gone}
    return FieldState({**kept, stamp: new}, {**state.seen, stamp.origin: stamp.time})


def to_delta(state: FieldState, stamp: Stamp) -> FieldState:
    """Return the delta to send: the author's own value; other values only as stamps."""
    return FieldState({s: v if s == stamp else AWAITED for s, v in state.values.items()}, state.seen)


def pick_visible(states: Iterable[FieldState]) -> tuple[Any, list[tuple[Stamp, Any]]]:
    """Return the shown value over several states, and the conflicting ones."""
    known = [(s, canonical_json(v), v) for cell in states for s, v in cell.values.items() if v is not AWAITED]
    if not known:
        return None, []
    best = max(known, key=lambda item: item[:2])
    return best[2], [(s, v) for s, text, v in known if text != best[1]]


def is_present(states: Iterable[FieldState]) -> bool:
    """Whether a set element is present: a concurrent add wins over a remove."""
    return any(v is True for cell in states for v in cell.values.values())


def drop_empty(states: Mapping[str, FieldState]) -> dict[str, FieldState]:
    """Drop empty states, of columns that never had a value."""
    return {name: cell for name, cell in states.items() if cell.values or cell.seen}
