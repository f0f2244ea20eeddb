"""Who asks, and what they may do."""

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
    """One caller, the same object through every operation."""

    agent: str
    right: Right = "admin"
    namespaces: tuple[str, ...] = ALL_NAMESPACES
    """Paths, each of which stands for itself and what lies below; `*` stands for all."""
    key: str | None = None
    bound: bool = False
    """Whether the agent is fixed, by a key or a header, so that a request may not name another."""
    source: str = "library"
    """The `source` of what this caller stores without naming one."""
    peer: str | None = None
    """The name of the enrolled peer that a signed request proved, if it did."""

    def may(self, right: Right) -> bool:
        return RIGHTS.index(self.right) >= RIGHTS.index(right)

    def reaches(self, namespace: str) -> bool:
        return "*" in self.namespaces or any(under(namespace, path) for path in self.namespaces)

    def acting_as(self, agent: str) -> "Caller":
        """The caller under an agent id that the request names."""
        if agent != self.agent and self.bound:
            raise Forbidden(f"You are {self.agent!r} and cannot act as {agent!r}.")
        return replace(self, agent=admit_agent(agent))

    def must_reach(self, namespace: str) -> None:
        """Raise unless an explicitly named namespace is among the caller's."""
        if not self.reaches(namespace):
            raise Forbidden(f"This key does not reach the namespace {namespace!r}.")


def under(namespace: str, path: str) -> bool:
    """Whether a namespace is a path or lies below it."""
    return namespace == path or namespace.startswith(path + "/")


def admit_agent(agent: str, field: str = "agent_id") -> str:
    """An agent id that can be claimed from outside."""
    if not _AGENT.fullmatch(agent) or ".." in agent:
        raise Invalid(
            f"{field}: an agent id has 1 to 128 letters, digits or _ - : @ . / and does not begin with /",
            fields=[field],
        )
    if agent in RESERVED_AGENTS:
        raise Invalid(f"{field}: {agent!r} is reserved", fields=[field])
    return agent


def admit_agent_type(agent_type: str) -> str:
    if agent_type not in ("human", "system") and not re.fullmatch(r"ai:[A-Za-z0-9_.-]{1,61}", agent_type):
        raise Invalid("agent_type: one of human, system or ai:<name>", fields=["agent_type"])
    return agent_type


def client_agent(client: str, host: str) -> str:
    """The stable id of an agent that names only its program: `ai:<client>@<host>`."""
    return f"ai:{_plain(client) or 'client'}@{_plain(host) or 'localhost'}"


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:60]
