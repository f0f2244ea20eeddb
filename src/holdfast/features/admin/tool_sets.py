"""Which operations a server offers as tools: by feature, by size, or by a former name."""

from collections.abc import Sequence

from holdfast.kernel.errors import InvalidSetting
from holdfast.kernel.registry.operation import REGISTRY

ALWAYS_LISTED = "capabilities"
"""The operation that every profile offers: it shows which tools are left out."""
CORE = ("store", "get", "update", "list", "recall", "context")
STANDARD = (
    *("search", "delete", "undo", "history", "boot", "feedback", "namespaces", "invalidations", "reflect"),
    *("link", "kg_invalidate", "get_links", "graph", "fact_set", "fact_list"),
    *("skill_list", "skill_get", "task_add", "task_list", "task_finish"),
)
"""What an agent needs beyond the core in daily work."""
SIZES = ("core", "standard", "full")
FORMER_PROFILES: dict[str, tuple[str, ...]] = {
    "graph": ("graph", "get_taxonomy", "kg_timeline"),
    "admin": ("admin", "memories", "undo", "reembed", "access", "namespaces"),
    "lifecycle": ("memories", "undo", "reembed", "gc"),
    "governance": ("access", "namespaces"),
    "meta": ("admin", "history", "agent_list", "agent_register", "namespaces"),
    "archive": ("memories",),
    "power": (
        *("memories", "recall", "context_blocks", "reflections", "skills", "curation", "ingest", "importers"),
        *("people", "conversations", "learning", "tasks", "runs", "usage", "webhooks", "agent_hosts", "access", "sync"),
        *("dependents_of_invalidated", "ingest_multistep"),
    ),
    "other": ("access", "admin", "llm", "sync", "transfer"),
}
"""Profiles of earlier releases and families of ai-memory, as the features and tools that they offered."""


def list_features() -> list[str]:
    """List the features that have tools, by name."""
    return sorted({entry.family for entry in REGISTRY.entries.values() if "mcp" in entry.surfaces})


def list_families() -> list[str]:
    """List the features, and the families that ai-memory's clients ask for."""
    return list(dict.fromkeys([*list_features(), "core", *FORMER_PROFILES]))


def resolve_profile(profile: str) -> tuple[str, ...]:
    """Return the operations of a comma-separated list of profiles and features; core comes first, always."""
    chosen = [*CORE, ALWAYS_LISTED]
    for name in filter(None, (part.strip() for part in profile.split(","))):
        if name not in (*SIZES, *list_families()):
            raise InvalidSetting(
                f"Unknown MCP profile {name!r}: choose from {', '.join(SIZES)}, or features: "
                f"{', '.join(list_features())}.",
                profile=profile,
            )
        chosen += _tools_within(FORMER_PROFILES[name]) if name in FORMER_PROFILES else list_tools(name)
    return tuple(dict.fromkeys(chosen))


def list_tools(name: str) -> list[str]:
    """List the operations of a size, a feature or a former family."""
    if name in ("core", "standard"):
        return [*CORE, *(STANDARD if name == "standard" else ())]
    features = list_features()
    return _tools_within(features if name == "full" else [name] if name in features else FORMER_PROFILES[name])


def _tools_within(names: Sequence[str]) -> list[str]:
    """List the operations with these names, or of these features, that can be tools."""
    entries = [entry for entry in REGISTRY.entries.values() if "mcp" in entry.surfaces]
    return [entry.name for entry in entries if entry.family in names or entry.name in names]
