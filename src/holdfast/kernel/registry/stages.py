"""Stages: the effects of an operation on the store, for interceptors such as lifecycle hooks."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

Stage = Literal["store", "recall", "delete", "link", "reflect"]


class StageEffect(NamedTuple):
    """The effect of a request at one stage."""

    namespaces: list[str]
    """Affected namespaces; empty if unknown."""
    memories: list[dict[str, Any]]
    """Contents of memories it creates, as far as known and not in the request."""


class StageEffects(dict[Stage, StageEffect]):
    """Effects of a request by stage; empty if no hook needs to run."""

    def add(self, stage: Stage, places: Iterable[str], *makes: dict[str, Any]) -> "StageEffects":
        part = self.setdefault(stage, StageEffect([], []))
        part.namespaces.extend(one for one in dict.fromkeys(places) if one not in part.namespaces)
        part.memories.extend(makes)
        return self
