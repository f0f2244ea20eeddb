"""Holdfast: one persistent memory for every AI agent."""

from .app import Holdfast, open
from .domain.errors import HoldfastError
from .domain.memory import Memory
from .version import __version__

__all__ = ["Holdfast", "HoldfastError", "Memory", "__version__", "open"]
