"""Grants: what an agent may do with the private memory of another."""

from typing import Literal

from msgspec import Struct

from holdfast.kernel.journal.kinds import Kind, register_kind
from holdfast.kernel.records.field_versions import MergeSchema

Permission = Literal["read", "write", "admin"]


class Grant(Struct, frozen=True):
    """A grant: what one agent may do with another's private memory."""

    id: str
    memory: str
    agent: str
    permission: Permission
    granted_by: str
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


GRANT = register_kind(
    Kind(
        "memory_grant",
        Grant,
        MergeSchema(conflict_fields=("permission", "state")),
        lambda grant: grant.memory,
        lambda row: Grant(*row),
        references=lambda grant: (("memory", grant.memory),),
    )
)
