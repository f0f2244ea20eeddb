"""Ask the model if one is set, else fall back to rules; report which was used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeVar

from holdfast.features.llm.client import Task, Unhelped, consult
from holdfast.kernel.context import Hold
from holdfast.kernel.prompt import Material

T = TypeVar("T")

Method = Literal["heuristic", "llm"]


class How(NamedTuple):
    """How a result was produced: by rules or by which model, and why a configured model was not used."""

    method: Method = "heuristic"
    model: str | None = None
    reason: str | None = None


BY_RULES = How()


def aid(hold: Hold, task: Task[T], material: Sequence[Material]) -> tuple[T, How] | tuple[None, How]:
    """Ask the model for a valid answer; None means that the caller uses its rules. Never call inside a transaction."""
    if hold.model is None:
        return None, BY_RULES
    found = consult(hold, task, material)
    if isinstance(found, Unhelped):
        return None, How(reason=found.reason)
    return found.answer, How("llm", found.model)


def unfit(reason: str) -> How:
    """Report that the model answered but the answer was not usable."""
    return How(reason=reason)


def told(how: How) -> dict[str, str]:
    """Metadata that record how a derived memory was produced."""
    return {"method": how.method} | ({"model": how.model} if how.model is not None else {})
