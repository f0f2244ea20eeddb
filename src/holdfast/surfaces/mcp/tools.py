"""Which operations are tools, and how each is listed."""

from collections.abc import Iterable
from typing import Any

from holdfast.kernel.errors import Misconfigured
from holdfast.kernel.registry.operation import FAMILIES, Entry
from holdfast.operations import REGISTRY, Effect, Operation
from holdfast.surfaces.mcp.schema import input_schema, output_schema

PREFIX = "memory_"
ALWAYS = "capabilities"
"""The operation that every profile lists: it says what the others leave out."""
PROFILES: dict[str, tuple[str, ...]] = {
    "core": ("core",),
    "graph": ("core", "graph"),
    "admin": ("core", "lifecycle", "governance"),
    "power": ("core", "power"),
    "full": FAMILIES,
}
FEW = 3
"""So many values a field names each time, as its tier; of more, such as all kinds, the first field names them."""
_RANK = {family: rank for rank, family in enumerate(FAMILIES)}


def families(profile: str) -> tuple[str, ...]:
    """The families of a profile, or of a comma-separated list of profiles and families; core is always among them."""
    chosen = {"core"}
    for name in filter(None, (part.strip() for part in profile.split(","))):
        if name not in PROFILES and name not in FAMILIES:
            valid = ", ".join(dict.fromkeys((*PROFILES, *FAMILIES)))
            raise Misconfigured(f"There is no MCP profile or family {name!r}: choose among {valid}.", profile=profile)
        chosen.update(PROFILES.get(name, (name,)))
    return tuple(family for family in FAMILIES if family in chosen)


def tool_entries() -> dict[str, Entry]:
    """What is known of every operation that may be a tool, by the tool's name."""
    return {PREFIX + name: entry for name, entry in REGISTRY.entries.items() if "mcp" in entry.surfaces}


def offered(within: Iterable[str]) -> dict[str, Operation]:
    """The tools of some families, core first."""
    known = tool_entries()
    reached = [name for name, entry in known.items() if entry.family in within or entry.name == ALWAYS]
    return {name: REGISTRY[known[name].name] for name in sorted(reached, key=lambda name: _RANK[known[name].family])}


def listed(tools: dict[str, Operation]) -> list[dict[str, Any]]:
    """The tools as a client sees them; what is said of one field is not repeated of the next."""
    said: set[str | tuple[str, ...]] = set()
    return [_listed(name, operation, said) for name, operation in tools.items()]


def _listed(name: str, operation: Operation, said: set[str | tuple[str, ...]]) -> dict[str, Any]:
    schema = input_schema(operation)
    for field in schema["properties"].values():
        _say_once(field, said)
    return {
        "name": name,
        "description": operation.summary,
        "inputSchema": schema,
        "outputSchema": output_schema(operation),
        "annotations": annotations(operation),
    }


def _say_once(field: dict[str, Any], said: set[str | tuple[str, ...]]) -> None:
    """Leave out of a field, and of what it lists, a description or many values that were given before."""
    for key, value in (("description", field.get("description")), ("enum", tuple(field.get("enum", ())))):
        if value in said:
            del field[key]
        elif value and (key == "description" or len(value) > FEW):
            said.add(value)
    if "items" in field:
        _say_once(field["items"], said)


def annotations(operation: Operation) -> dict[str, bool]:
    """What a client may assume of a call. A tool touches this store and nothing beyond it."""
    if operation.effect is Effect.READ:
        return {"readOnlyHint": True, "openWorldHint": False}
    hints = {"destructiveHint": operation.effect is Effect.DESTROY, "openWorldHint": False}
    return {**hints, "idempotentHint": True} if operation.method in ("PUT", "DELETE") else hints


def beyond(name: str, profile: str) -> str:
    """Why a tool cannot be called, and what would change that."""
    operation = tool_entries().get(name)
    if operation is None:
        return f"Unknown tool: {name}"
    return (
        f"Unknown tool: {name}. It is of the family {operation.family}, which the profile {profile!r} leaves out: "
        f"start the server with --profile {operation.family}."
    )
