"""The tools: which operations a profile offers, and how each is listed."""

from collections.abc import Iterable
from typing import Any

from holdfast.kernel.errors import InvalidSetting
from holdfast.kernel.registry.operation import FAMILIES, Entry
from holdfast.operations import REGISTRY, Effect, Operation
from holdfast.surfaces.mcp.schema import input_schema, output_schema

PREFIX = "memory_"
ALWAYS_LISTED = "capabilities"
"""The operation that every profile lists: it shows which tools are left out."""
PROFILES: dict[str, tuple[str, ...]] = {
    "core": ("core",),
    "graph": ("core", "graph"),
    "admin": ("core", "lifecycle", "governance"),
    "power": ("core", "power"),
    "full": FAMILIES,
}
MAX_REPEATED_VALUES = 3
"""Enums up to this size are repeated in each field; a longer one is listed in the first field only."""
_RANK = {family: rank for rank, family in enumerate(FAMILIES)}


def resolve_families(profile: str) -> tuple[str, ...]:
    """Return the families of a comma-separated list of profiles and families; core is always included."""
    chosen = {"core"}
    for name in filter(None, (part.strip() for part in profile.split(","))):
        if name not in PROFILES and name not in FAMILIES:
            valid = ", ".join(dict.fromkeys((*PROFILES, *FAMILIES)))
            raise InvalidSetting(f"Unknown MCP profile or family {name!r}: choose from {valid}.", profile=profile)
        chosen.update(PROFILES.get(name, (name,)))
    return tuple(family for family in FAMILIES if family in chosen)


def tool_entries() -> dict[str, Entry]:
    """Return the entry of every operation that can be a tool, by tool name."""
    return {PREFIX + name: entry for name, entry in REGISTRY.entries.items() if "mcp" in entry.surfaces}


def select_tools(within: Iterable[str]) -> dict[str, Operation]:
    """Return the tools of some families, core first."""
    known = tool_entries()
    reached = [name for name, entry in known.items() if entry.family in within or entry.name == ALWAYS_LISTED]
    return {name: REGISTRY[known[name].name] for name in sorted(reached, key=lambda name: _RANK[known[name].family])}


def describe_tools(tools: dict[str, Operation]) -> list[dict[str, Any]]:
    """Describe the tools for a client; a description already given for a field is not repeated."""
    said: set[str | tuple[str, ...]] = set()
    return [_describe_tool(name, operation, said) for name, operation in tools.items()]


def _describe_tool(name: str, operation: Operation, said: set[str | tuple[str, ...]]) -> dict[str, Any]:
    schema = input_schema(operation)
    for field in schema["properties"].values():
        _drop_repeated(field, said)
    return {
        "name": name,
        "description": operation.summary,
        "inputSchema": schema,
        "outputSchema": output_schema(operation),
        "annotations": annotations(operation),
    }


def _drop_repeated(field: dict[str, Any], said: set[str | tuple[str, ...]]) -> None:
    """Drop a description or a long enum that an earlier field already gave."""
    for key, value in (("description", field.get("description")), ("enum", tuple(field.get("enum", ())))):
        if value in said:
            del field[key]
        elif value and (key == "description" or len(value) > MAX_REPEATED_VALUES):
            said.add(value)
    if "items" in field:
        _drop_repeated(field["items"], said)


def annotations(operation: Operation) -> dict[str, bool]:
    """Return the hints for a client. A tool only touches this store."""
    if operation.effect is Effect.READ:
        return {"readOnlyHint": True, "openWorldHint": False}
    hints = {"destructiveHint": operation.effect is Effect.DESTROY, "openWorldHint": False}
    return {**hints, "idempotentHint": True} if operation.method in ("PUT", "DELETE") else hints


def explain_unknown_tool(name: str, profile: str) -> str:
    """Explain why a tool is not available and how to enable it."""
    operation = tool_entries().get(name)
    if operation is None:
        return f"Unknown tool: {name}"
    return (
        f"Unknown tool: {name}. It belongs to the family {operation.family}, which the profile {profile!r} does not "
        f"offer: start the server with --profile {operation.family}."
    )
