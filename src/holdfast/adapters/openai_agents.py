"""The former name of `holdfast.integrations.openai_agents`."""

from holdfast.integrations.openai_agents import HoldfastSession

__all__ = ["HoldfastSession"]
