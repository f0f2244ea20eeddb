"""Ask the model if one is set, else fall back to rules; report which was used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import UNSET, Struct, UnsetType

from holdfast.features.llm.client import NoAnswer, Task, ask_model
from holdfast.kernel.context import Context
from holdfast.kernel.prompt import Material

T = TypeVar("T")

Method = Literal["heuristic", "llm"]


class MethodUsed(NamedTuple):
    """How a result was produced: by rules or by which model, and why a configured model was not used."""

    method: Method = "heuristic"
    model: str | None = None
    reason: str | None = None


BY_RULES = MethodUsed()


def ask_or_fallback(
    ctx: Context, task: Task[T], material: Sequence[Material]
) -> tuple[T, MethodUsed] | tuple[None, MethodUsed]:
    """Ask the model for a valid answer; None means that the caller uses its rules. Never call inside a transaction."""
    if ctx.model is None:
        return None, BY_RULES
    found = ask_model(ctx, task, material)
    if isinstance(found, NoAnswer):
        return None, MethodUsed(reason=found.reason)
    return found.answer, MethodUsed("llm", found.model)


def rejected_answer(reason: str) -> MethodUsed:
    """Report that the model answered but the answer was not usable."""
    return MethodUsed(reason=reason)


def method_metadata(how: MethodUsed) -> dict[str, str]:
    """Metadata that record how a derived memory was produced."""
    return {"method": how.method} | ({"model": how.model} if how.model is not None else {})


class MethodInfo(Struct, frozen=True, kw_only=True):
    """How a result was computed: by rules or by a model."""

    method: Method
    model: str | UnsetType = UNSET
    """The model that answered."""
    reason: str | UnsetType = UNSET
    """Why no answer of the configured model was used."""


def method_fields(how: MethodUsed) -> dict[str, Any]:
    """Build the fields of `MethodInfo`."""
    optional = {"model": how.model, "reason": how.reason}
    return {"method": how.method, **{name: value for name, value in optional.items() if value is not None}}
