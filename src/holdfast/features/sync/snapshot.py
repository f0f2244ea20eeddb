"""Full record snapshots, sent when the single changes are no longer available."""

from hashlib import sha256

import msgspec
from msgspec import Struct

from holdfast.kernel.clock import STATE, Stamp, too_far
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.change import MAX_NUMBER, Change, must_be_name
from holdfast.kernel.records.field_versions import decode
from holdfast.kernel.records.merge import Cell

MOST_STATE = 8 * 1024 * 1024
"""Characters of one record with all its unresolved conflicts."""


class State(Struct, frozen=True, kw_only=True, omit_defaults=True):
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


def must_be_whole(state: State) -> None:
    """Raise Invalid unless a snapshot is well-formed."""
    for field in ("kind", "record", "origin"):
        must_be_name(field, getattr(state, field))
    if state.about is not None:
        must_be_name("about", state.about)
    if not 0 <= state.at <= MAX_NUMBER or len(state.cells) + len(state.body) > MOST_STATE:
        raise Invalid(f"A record snapshot needs a valid time and at most {MOST_STATE:,} characters.")


def read(state: State) -> dict[str, Cell]:
    """Decode the field versions of a snapshot; raises Invalid if they are inconsistent."""
    try:
        held = decode(state.cells.encode())
    except (msgspec.MsgspecError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise Invalid(f"It cannot be read: {error}") from None
    for name, cell in held.items():
        if any(stamp.time > cell.seen.get(stamp.origin, -1) for stamp in cell.values):
            raise Invalid(f"{name}: has a value newer than everything its writers saw.")
    return held


def ahead(state: State, held: dict[str, Cell], now_ms: int) -> bool:
    """Whether a snapshot has timestamps so far in the future that a clock must be wrong."""
    times = [state.at, *(time for cell in held.values() for time in cell.seen.values())]
    return any(too_far(time, now_ms) for time in times)


def as_change(state: State) -> Change:
    """Wrap a snapshot as a change, the form that quarantine stores; its number is derived from its record."""
    named = sha256(msgspec.json.encode([state.kind, state.record])).digest()
    about = {"kind": state.kind, "record": state.record, "about": state.about}
    n = 1 + (int.from_bytes(named[:7], "big") >> 4)
    said = msgspec.json.encode(state).decode()
    return Change(origin=STATE, n=n, at=state.at, actor="", op=STATE, delta=said, **about)  # type: ignore[arg-type]


def from_change(change: Change) -> State:
    """Unwrap a snapshot stored as a change."""
    return msgspec.json.decode(change.delta or "", type=State)
