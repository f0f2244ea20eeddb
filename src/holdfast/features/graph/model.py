"""Aliases: other names of an entity. Relations that lead to sources."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.journal.kinds import Kind, register_kind
from holdfast.kernel.records.field_versions import MergeSchema
from holdfast.kernel.records.link import Relation
from holdfast.kernel.records.tombstone import PURGED


class Alias(Struct, frozen=True):
    """An alternative name of an entity. Lookups compare `folded`."""

    id: str
    entity: str
    name: str
    folded: str
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


def erase_alias(alias: Alias) -> Alias:
    """Erase the name of an alias."""
    return replace(alias, name=PURGED, folded="", state="deleted")


ALIAS = register_kind(
    Kind(
        "alias",
        Alias,
        MergeSchema(conflict_fields=("name", "state")),
        lambda alias: alias.entity,
        lambda row: Alias(*row),
        erase_alias,
        lambda alias: (("memory", alias.entity),),
    )
)


SOURCE_RELATIONS: tuple[Relation, ...] = ("reflects_on", "derives_from", "derived_from")
"""Relations from a memory to its sources."""
