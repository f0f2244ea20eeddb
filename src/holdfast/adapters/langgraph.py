"""The former name of `holdfast.integrations.langgraph`."""

from holdfast.integrations.langgraph import HoldfastStore

__all__ = ["HoldfastStore"]
