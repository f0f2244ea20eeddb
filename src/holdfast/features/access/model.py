"""Registered agents, and messages between agents."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

from holdfast.kernel.journal.kinds import Kind, register_kind
from holdfast.kernel.records.field_versions import MergeSchema
from holdfast.kernel.records.fields import PRIVATE, Named, Timestamp, computed
from holdfast.kernel.storage.port import Row


class Agent(Struct, frozen=True):
    """A registered agent."""

    id: Annotated[str, Named("agent_id")]
    agent_type: str
    capabilities: Annotated[tuple[str, ...], PRIVATE]
    created_at: Annotated[Timestamp, Named("registered_at")]
    updated_at: Annotated[int, PRIVATE]
    origin: Annotated[str, PRIVATE]
    version: Annotated[int, PRIVATE]
    state: Annotated[Literal["live", "deleted"], PRIVATE] = "live"

    @computed
    def capability_list(self) -> Annotated[list[str], Named("capabilities")]:
        return list(self.capabilities)


class SeenAgent(Agent, frozen=True, kw_only=True):
    last_seen_at: Timestamp
    """Time of its last change here."""


class Notice(Struct, frozen=True):
    """A message between agents. It belongs to one store and is not a memory."""

    id: str
    sender: str
    recipient: Annotated[str, Named("to")]
    title: str
    body: Annotated[str, Named("payload")]
    priority: int
    metadata: dict[str, Any]
    created_at: Timestamp
    read_at: Annotated[int | None, PRIVATE] = None

    @computed
    def read(self) -> bool:
        return self.read_at is not None


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
