"""The former name of `holdfast.integrations.anthropic_memory`."""

from holdfast.integrations.anthropic_memory import AsyncHoldfastMemoryTool, HoldfastMemoryTool

__all__ = ["AsyncHoldfastMemoryTool", "HoldfastMemoryTool"]
