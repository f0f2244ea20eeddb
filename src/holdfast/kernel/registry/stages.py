"""Stages: the effects of an operation on the store, for interceptors such as lifecycle hooks."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

Stage = Literal["store", "recall", "delete", "link", "reflect"]


class Part(NamedTuple):
    """The effect of a request at one stage."""

    places: list[str]
    """Affected namespaces; empty if unknown."""
    makes: list[dict[str, Any]]
    """Contents of memories it creates, as far as known and not in the request."""


class Parts(dict[Stage, Part]):
    """Effects of a request by stage; empty if no hook needs to run."""

    def add(self, stage: Stage, places: Iterable[str], *makes: dict[str, Any]) -> "Parts":
        part = self.setdefault(stage, Part([], []))
        part.places.extend(one for one in dict.fromkeys(places) if one not in part.places)
        part.makes.extend(makes)
        return self
