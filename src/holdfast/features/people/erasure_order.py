"""That somebody is to be forgotten in every store that hears of it: by a digest of a name, up to a moment."""

from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.kernel.journal.kinds import Kind, register
from holdfast.kernel.records.field_versions import Shape
from holdfast.kernel.storage.port import Row


class Erasure(Struct, frozen=True):
    """An order to forget whoever has a name of that digest, with all that was written up to a moment."""

    id: str
    ordered_at: int
    """What was written later stays, by the clock of the store in which it was."""
    agent: str
    """Who ordered it."""
    heard: dict[str, int]
    """Which stores have done so, each with the moment up to which: what they write from then on, they mean."""
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"

    def reaches(self, written_at: int, origin: str) -> bool:
        """Whether what a store wrote at a time goes: not if that store had heard of it, whatever its clock said."""
        return written_at <= self.ordered_at and self.heard.get(origin, 0) < self.ordered_at


def erasure_of(row: Row) -> Erasure:
    """An erasure order from the columns of its table."""
    return Erasure(row[0], row[1], row[2], msgspec.json.decode(row[3], type=dict[str, int]), *row[4:])


ERASURE = register(
    Kind(
        "erasure",
        Erasure,
        Shape(registers=("state",), quiet=("agent",), highest=("ordered_at",), maps=("heard",)),
        lambda erasure: None,
        erasure_of,
    )
)
