"""Short forms of what a reader yields."""

from typing import Any

from holdfast.features.importers.model import Problem, Turn


def turns(found: list[Any], sort: str = "message") -> list[tuple[str, str]]:
    return [(one.speaker, one.content) for one in found if isinstance(one, Turn) and one.kind == sort]


def problems(found: list[Any]) -> list[tuple[str, str, bool]]:
    return [(one.where, one.what, one.rejected) for one in found if isinstance(one, Problem)]
