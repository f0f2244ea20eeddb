"""Storage adapters for agent frameworks; each implements the contract of its framework.

They use only the public library, so their data is journalled, recalled and synced like everything else. A framework is
imported when its adapter is first used; install it with the extra of the same name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.integrations.anthropic_memory import AsyncHoldfastMemoryTool, HoldfastMemoryTool
    from holdfast.integrations.langgraph import HoldfastStore
    from holdfast.integrations.openai_agents import HoldfastSession
    from holdfast.integrations.transcripts import Transcript, TranscriptTurn, read_transcript

__all__ = [
    "AsyncHoldfastMemoryTool",
    "HoldfastMemoryTool",
    "HoldfastSession",
    "HoldfastStore",
    "Transcript",
    "TranscriptTurn",
    "read_transcript",
]

_HOME = {
    "AsyncHoldfastMemoryTool": "anthropic_memory",
    "HoldfastMemoryTool": "anthropic_memory",
    "HoldfastSession": "openai_agents",
    "HoldfastStore": "langgraph",
    "Transcript": "transcripts",
    "TranscriptTurn": "transcripts",
    "read_transcript": "transcripts",
}
_NEEDS = {"anthropic_memory": "anthropic", "openai_agents": "agents", "langgraph": "langgraph"}
"""The package each adapter needs."""
_EXTRA = {"anthropic_memory": "anthropic", "openai_agents": "openai-agents", "langgraph": "langgraph"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME[name]
    try:
        return getattr(import_module(f".{home}", __name__), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != _NEEDS.get(home):
            raise
        raise ModuleNotFoundError(
            f"{name} needs the package {error.name}: install it with pip install 'holdfast[{_EXTRA[home]}]'",
            name=error.name,
        ) from None


def __dir__() -> list[str]:
    return __all__
