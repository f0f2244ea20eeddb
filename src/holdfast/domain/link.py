"""The records around a memory: links, entity names, grants, namespace standards, agents."""

from typing import Literal, get_args

from msgspec import Struct

from .cells import Shape

Relation = Literal["related_to", "supersedes", "contradicts", "derived_from", "reflects_on", "derives_from"]
Permission = Literal["read", "write", "admin"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)


class Link(Struct, frozen=True):
    """A typed, directed edge that holds from `valid_from` until it is invalidated."""

    id: str
    source: str
    target: str
    relation: Relation
    valid_from: int
    valid_until: int | None
    agent: str
    """Who observed it."""
    created_at: int
    updated_at: int
    origin: str
    version: int
    signature: str | None = None
    state: Literal["live", "deleted"] = "live"


class Alias(Struct, frozen=True):
    """Another name of an entity. `folded` is what a look-up compares."""

    id: str
    entity: str
    name: str
    folded: str
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


class Grant(Struct, frozen=True):
    """What one agent may do with another's private memory."""

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


class Standard(Struct, frozen=True):
    """The memory that states how a namespace works."""

    id: str
    """The namespace, or `*` for all of them."""
    memory: str
    parent: str | None
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


class Agent(Struct, frozen=True):
    """Someone who remembers."""

    id: str
    agent_type: str
    capabilities: tuple[str, ...]
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


LINK_SHAPE = Shape(registers=("valid_from", "valid_until", "state"), quiet=("signature",))
ALIAS_SHAPE = Shape(registers=("name", "state"))
GRANT_SHAPE = Shape(registers=("permission", "state"))
STANDARD_SHAPE = Shape(registers=("memory", "parent", "state"))
AGENT_SHAPE = Shape(registers=("agent_type", "state"), sets=("capabilities",))
