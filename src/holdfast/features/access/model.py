"""Registered agents."""

from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.kernel.journal.kinds import Kind, register_kind
from holdfast.kernel.records.field_versions import MergeSchema
from holdfast.kernel.storage.port import Row


class Agent(Struct, frozen=True):
    """A registered agent."""

    id: str
    agent_type: str
    capabilities: tuple[str, ...]
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


def agent_of(row: Row) -> Agent:
    """Build an agent from a row of its table."""
    return Agent(row[0], row[1], tuple(msgspec.json.decode(row[2])), *row[3:])


AGENT = register_kind(
    Kind(
        "agent",
        Agent,
        MergeSchema(conflict_fields=("agent_type", "state"), set_fields=("capabilities",)),
        lambda agent: None,
        agent_of,
    )
)
