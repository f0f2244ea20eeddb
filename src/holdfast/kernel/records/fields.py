"""Types and markers for the fields of a record, from which its columns, its answers and its export row are derived.

A marker goes into the annotation: `owner: Annotated[str | None, Mark.LOCAL] = None`.
"""

from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from holdfast.kernel.timestamps import TIME, format_timestamp, parse_timestamp


class Mark(Enum):
    """What is special about a column."""

    FIXED = "set when the row is added, never updated"
    LOCAL = "not exported: it holds in this store only; has a default"
    MEMORY = "id of a memory, which an import may map to another"


PRIVATE = Meta(extra={"private": True})
"""Not in answers."""
SPARSE = Meta(extra={"sparse": True})
"""Omitted in answers while it is empty."""


def Named(name: str) -> Meta:
    """Has another name in answers."""
    return Meta(extra={"name": name})


class computed(property):
    """A property that is a field of answers."""


class ExportAs(NamedTuple):
    """How an export writes a field, if not as it is."""

    name: str | None = None
    type: Any = None
    format: Callable[[Any], Any] | None = None
    parse: Callable[[Any, str], Any] | None = None
    """Takes the value and the field's name for an error."""


Text = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f]{1,512}\Z")]
ShortText = Annotated[str, Meta(min_length=1, max_length=512)]
OptionalShortText = Annotated[str, Meta(max_length=512)]
LongText = Annotated[str, Meta(max_length=65_536)]
RowId = Annotated[str, Meta(pattern=r"\A(?!.*\.\.)[A-Za-z0-9_:.@-]{1,128}\Z")]
Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Count = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
Moment = Annotated[str, Meta(min_length=4, max_length=64)]
"""A time in an export."""
Timestamp = Annotated[int, TIME, ExportAs(type=Moment, format=format_timestamp, parse=parse_timestamp)]
"""A time in microseconds; RFC 3339 in answers and exports."""
Agent = Annotated[str, Named("agent_id"), ExportAs(name="agent_id")]
"""The agent that wrote the row."""
