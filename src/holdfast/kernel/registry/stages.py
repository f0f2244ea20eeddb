"""Stages: what an operation does to the store, as far as interceptors such as lifecycle hooks need to know it."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

Stage = Literal["store", "recall", "delete", "link", "reflect"]


class Part(NamedTuple):
    """What a request does at one stage."""

    places: list[str]
    """The namespaces that it touches; none: it is not known which."""
    makes: list[dict[str, Any]]
    """What memories will say by it, as far as that is known and the request does not say it."""


class Parts(dict[Stage, Part]):
    """What a request does, stage by stage; nothing, if no hook needs to be asked."""

    def add(self, stage: Stage, places: Iterable[str], *makes: dict[str, Any]) -> "Parts":
        part = self.setdefault(stage, Part([], []))
        part.places.extend(one for one in dict.fromkeys(places) if one not in part.places)
        part.makes.extend(makes)
        return self
