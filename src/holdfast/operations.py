"""All operations, found by name without importing the others."""

from collections.abc import Iterable, Iterator
from importlib import import_module

from holdfast.kernel.registry.operation import REGISTRY, Effect, Operation, Registry
from holdfast.operation_index import ENTRIES

__all__ = ["MODULES", "REGISTRY", "Effect", "Operation", "import_all"]

MODULES = (
    "features.reflections.operations.invalidations",
    "features.memories.operations.lifecycle",
    "features.admin.operations.about",
    "features.access.operations",
    "features.memories.operations.core",
    "features.history.operations.show_memory",
    "features.memories.operations.find",
    "features.importers.operations",
    "features.curation.operations.audit",
    "features.agent_hosts.operations",
    "features.context_blocks.operations.for_reply",
    "features.sync.operations.sync",
    "integrations.ai_memory.operations",
    "integrations.ai_memory.aliases",
    "features.skills.operations.skills",
    "features.skills.operations.skill_versions",
    "features.skills.operations.compose",
    "features.sync.operations.conflicts",
    "features.recall.operations.recall",
    "features.context_blocks.operations.for_query",
    "features.conversations.operations",
    "features.curation.operations.curate",
    "features.curation.operations.derive",
    "features.curation.operations.digest",
    "features.recall.operations.explain",
    "features.people.operations.facts",
    "features.recall.operations.feedback",
    "features.graph.operations.links",
    "features.graph.operations.paths",
    "features.graph.operations.entities",
    "features.hooks.operations",
    "features.ingest.operations",
    "features.people.operations.interactions",
    "integrations.kernex.operations",
    "features.learning.operations.lessons",
    "features.llm.operations",
    "features.namespaces.operations",
    "features.learning.operations.observations",
    "features.history.operations.journal",
    "features.sync.operations.protocol",
    "features.sync.operations.peers",
    "features.reflections.operations.approvals",
    "features.people.operations.principals",
    "features.sync.operations.quarantine",
    "features.reflections.operations.reflect",
    "features.transfer.reflections.operations",
    "features.runs.operations",
    "features.webhooks.operations",
    "features.tasks.operations.tasks",
    "features.tasks.operations.claims",
    "features.transfer.operations",
    "features.admin.operations.upkeep",
    "features.usage.operations",
)
"""Modules that declare operations, in the order of pages and tools."""

REGISTRY.add_index(ENTRIES)


def import_all(registry: Registry, modules: Iterable[str]) -> Iterator[Operation]:
    """Import every module and yield its operations, to build the index."""
    for module in modules:
        import_module(f"holdfast.{module}")
        yield from registry.declared_in(f"holdfast.{module}")
