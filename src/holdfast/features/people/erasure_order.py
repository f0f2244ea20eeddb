"""Erasure orders: replicated requests to erase a person, by digest of a name and up to a time."""

from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.kernel.journal.kinds import Kind, register_kind
from holdfast.kernel.records.field_versions import MergeSchema
from holdfast.kernel.storage.port import Row


class ErasureOrder(Struct, frozen=True):
    """An order to erase the person whose name has this digest, with everything written up to a time."""

    id: str
    ordered_at: int
    """Data written later stays, by the clock of the store that wrote it."""
    agent: str
    """The agent that ordered it."""
    heard: dict[str, int]
    """Stores that applied the order, with its time; what they write afterwards is intended and stays."""
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"

    def covers(self, written_at: int, origin: str) -> bool:
        """Return whether data a store wrote at a time is erased; never if that store already knew the order."""
        return written_at <= self.ordered_at and self.heard.get(origin, 0) < self.ordered_at


def erasure_of(row: Row) -> ErasureOrder:
    """Build an erasure order from a row of its table."""
    return ErasureOrder(row[0], row[1], row[2], msgspec.json.decode(row[3], type=dict[str, int]), *row[4:])


ERASURE = register_kind(
    Kind(
        "erasure",
        ErasureOrder,
        MergeSchema(
            conflict_fields=("state",), lww_fields=("agent",), max_fields=("ordered_at",), map_fields=("heard",)
        ),
        lambda erasure: None,
        erasure_of,
        undo_refusal="An erasure cannot be undone.",
    )
)
