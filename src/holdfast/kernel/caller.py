"""The caller of an operation: identity, right and namespaces."""

import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import Forbidden, Invalid

Right = Literal["read", "write", "admin"]
RIGHTS: tuple[Right, ...] = ("read", "write", "admin")
ALL_NAMESPACES = ("*",)

_AGENT = re.compile(r"[A-Za-z0-9_:@.-][A-Za-z0-9_:@./-]{0,127}")
RESERVED_AGENTS = frozenset({"daemon", "system", "holdfast", "anonymous"})


class Caller(Struct, frozen=True):
    """An authenticated caller. Passed unchanged through an operation."""

    agent: str
    right: Right = "admin"
    namespaces: tuple[str, ...] = ALL_NAMESPACES
    """Namespace paths; each includes its descendants. `*` means all."""
    key: str | None = None
    has_fixed_agent: bool = False
    """Whether a key or header fixes the agent, so that a request cannot name another one."""
    source: str = "library"
    """Default `source` of memories stored by this caller."""
    peer: str | None = None
    """Name of the enrolled peer that signed the request, if any."""

    def has_right(self, right: Right) -> bool:
        return RIGHTS.index(self.right) >= RIGHTS.index(right)

    def can_access(self, namespace: str) -> bool:
        return "*" in self.namespaces or any(is_under(namespace, path) for path in self.namespaces)

    def act_as(self, agent: str) -> "Caller":
        """Return the caller with the agent id given in the request; raise Forbidden if the agent is fixed."""
        if agent != self.agent and self.has_fixed_agent:
            raise Forbidden(f"{self.agent!r} cannot act as {agent!r}.")
        return replace(self, agent=validate_agent_id(agent))

    def require_access(self, namespace: str) -> None:
        """Raise Forbidden unless the caller can access an explicitly named namespace."""
        if not self.can_access(namespace):
            raise Forbidden(f"This key has no access to the namespace {namespace!r}.")


def is_under(namespace: str, path: str) -> bool:
    """Whether a namespace equals a path or is below it."""
    return namespace == path or namespace.startswith(path + "/")


def validate_agent_id(agent: str, field: str = "agent_id") -> str:
    """Validate an agent id given by a client; reserved ids are rejected."""
    if not _AGENT.fullmatch(agent) or ".." in agent:
        raise Invalid(
            f"{field}: must be 1 to 128 letters, digits or _ - : @ . / and must not start with /", fields=[field]
        )
    if agent in RESERVED_AGENTS:
        raise Invalid(f"{field}: {agent!r} is reserved", fields=[field])
    return agent


def validate_agent_type(agent_type: str) -> str:
    if agent_type not in ("human", "system") and not re.fullmatch(r"ai:[A-Za-z0-9_.-]{1,61}", agent_type):
        raise Invalid("agent_type: must be human, system or ai:<name>", fields=["agent_type"])
    return agent_type


def client_agent(client: str, host: str) -> str:
    """Build a stable agent id for a client that sends only its program name: `ai:<client>@<host>`."""
    return f"ai:{_slugify(client) or 'client'}@{_slugify(host) or 'localhost'}"


def _slugify(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:60]
