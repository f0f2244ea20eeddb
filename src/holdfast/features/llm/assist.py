"""Ask a model if one is set, and say by which way an answer came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeVar

from holdfast.features.llm.client import Task, Unhelped, consult
from holdfast.kernel.context import Hold
from holdfast.kernel.prompt import Material

T = TypeVar("T")

Method = Literal["heuristic", "llm"]


class How(NamedTuple):
    """By rules or by a model, by which, and why one that is set did not help."""

    method: Method = "heuristic"
    model: str | None = None
    reason: str | None = None


BY_RULES = How()


def aid(hold: Hold, task: Task[T], material: Sequence[Material]) -> tuple[T, How] | tuple[None, How]:
    """A model's answer that fits the task, if there is one. Never inside a transaction."""
    if hold.model is None:
        return None, BY_RULES
    found = consult(hold, task, material)
    if isinstance(found, Unhelped):
        return None, How(reason=found.reason)
    return found.answer, How("llm", found.model)


def unfit(reason: str) -> How:
    """The model answered, but not so that it could be used."""
    return How(reason=reason)


def told(how: How) -> dict[str, str]:
    """What the metadata of something derived say of how it came about."""
    return {"method": how.method} | ({"model": how.model} if how.model is not None else {})
