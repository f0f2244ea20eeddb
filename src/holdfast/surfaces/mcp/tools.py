"""The tools: which operations a profile offers, and how each is listed."""

from typing import Any

from holdfast.features.admin.tool_sets import resolve_profile
from holdfast.kernel.registry.operation import Entry
from holdfast.operations import REGISTRY, Effect, Operation
from holdfast.surfaces.mcp.schema import input_schema, output_schema

PREFIX = "memory_"
MAX_REPEATED_VALUES = 3
"""Enums up to this size are repeated in each field; a longer one is listed in the first field only."""


def tool_entries() -> dict[str, Entry]:
    """Return the entry of every operation that can be a tool, by tool name."""
    return {PREFIX + name: entry for name, entry in REGISTRY.entries.items() if "mcp" in entry.surfaces}


def select_tools(profile: str) -> dict[str, Operation]:
    """Return the tools of a profile by name, core first."""
    return {PREFIX + name: REGISTRY[name] for name in resolve_profile(profile)}


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
        f"Unknown tool: {name}. It belongs to the feature {operation.family}, which the profile {profile!r} does not "
        f"offer: start the server with --profile {','.join(filter(None, (profile, operation.family)))}."
    )
