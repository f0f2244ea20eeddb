"""The context of `holdfast agents boot` and `holdfast agents wrap`. Imported only once the deadline runs."""

from typing import Any

from holdfast.app import open as open_memory
from holdfast.features.agent_hosts import projects
from holdfast.kernel.local_files import local_path
from holdfast.settings import Settings


def read_boot_context(settings: Settings, path: str | None, namespace: str | None, budget: int | None) -> Any:
    """Build the session-start context of a namespace, or of the project of a local folder."""
    with open_memory(settings=settings, source="cli", once=True) as hold:
        if namespace is None:
            found = projects.find_project(hold.ctx, local_path(path or "."))
            namespace, budget = found.namespace, budget or found.budget
        return hold.call(
            "boot", {"namespace": namespace, "budget": budget or hold.settings.session_start_budget_tokens}
        )
