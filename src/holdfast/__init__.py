"""Holdfast: a persistent memory for AI agents."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.aio import AsyncHoldfast, aopen
    from holdfast.app import Holdfast, open
    from holdfast.kernel.errors import HoldfastError
    from holdfast.kernel.records.memory import Memory

__all__ = ["AsyncHoldfast", "Holdfast", "HoldfastError", "Memory", "__version__", "aopen", "open"]

_HOME = {
    "AsyncHoldfast": ".aio",
    "Holdfast": ".app",
    "HoldfastError": ".kernel.errors",
    "Memory": ".kernel.records.memory",
    "aopen": ".aio",
    "open": ".app",
}


def __getattr__(name: str) -> Any:
    """Import on first use, so that the command line starts fast."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
