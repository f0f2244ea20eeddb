"""Record kinds: what journal, merge and tombstones need to know about a replicated record.

The kernel defines memories and links; features register their own kinds.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from holdfast.kernel.records import field_versions
from holdfast.kernel.records.link import LINK_MERGE_SCHEMA, Link
from holdfast.kernel.records.memory import MEMORY_MERGE_SCHEMA, Citation, Memory, Span, erase_memory
from holdfast.kernel.storage.port import Row

R = TypeVar("R", bound=Struct)


def refuse_purge(record: Any) -> Any:
    """Tombstone function of a kind that is never purged."""
    raise TypeError(type(record).__name__)


class Kind(NamedTuple, Generic[R]):
    """A journalled record kind."""

    name: str
    type: type[R]
    merge_schema: field_versions.MergeSchema
    about: Callable[[R], str | None]
    """Id of the memory whose visibility decides who can see a change of this record."""
    load: Callable[[Row], R]
    tombstone: Callable[[R], R] = refuse_purge
    """Returns the record without its content, as after a purge."""
    references: Callable[[R], Sequence[tuple[str, str]]] = lambda record: ()
    """Kind and id of each record it depends on."""


KINDS: dict[str, Kind[Any]] = {}
"""Registered kinds by name, in order of registration."""


def register_kind(kind: Kind[R]) -> Kind[R]:
    """Register a kind; raises ValueError if the name is taken."""
    if kind.name in KINDS:
        raise ValueError(f"The record kind {kind.name} is registered twice.")
    KINDS[kind.name] = kind
    return kind


def kind_of(record: Struct) -> Kind[Any]:
    """The kind of a record."""
    return next(kind for kind in KINDS.values() if kind.type is type(record))


def can_be_purged(record: type[Struct]) -> bool:
    """Whether records of a type have a tombstone."""
    return any(kind.type is record and kind.tombstone is not refuse_purge for kind in KINDS.values())


def tombstone_of(record: Any) -> Any:
    """A record without its content."""
    return kind_of(record).tombstone(record)


def load_memory(row: Row) -> Memory:
    """Load a memory from a row of `memory.columns`."""
    values = list(row)
    values[12] = tuple(msgspec.json.decode(row[12]))
    values[13] = msgspec.json.decode(row[13])
    values[14] = msgspec.json.decode(row[14], type=tuple[Citation, ...]) if row[14] != "[]" else ()
    values[16] = msgspec.json.decode(row[16], type=Span) if row[16] else None
    values[31] = msgspec.json.decode(row[31]) if row[31] != "{}" else {}
    return Memory(*values)


MEMORY = register_kind(Kind("memory", Memory, MEMORY_MERGE_SCHEMA, lambda memory: memory.id, load_memory, erase_memory))
LINK = register_kind(
    Kind(
        "link",
        Link,
        LINK_MERGE_SCHEMA,
        lambda link: link.source,
        lambda row: Link(*row),
        references=lambda link: (("memory", link.source), ("memory", link.target)),
    )
)
