"""Ask a model, if one is set: its answer is checked, kept and accounted for, and never needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from ..domain.prompt import Material
from .hold import Hold

__all__ = ["Consulted", "Material", "Task", "Unhelped", "consult"]

T = TypeVar("T")


class Task(NamedTuple, Generic[T]):
    """What a model is to do."""

    name: str
    instructions: str
    answer: type[T]
    """A msgspec Struct: its schema is sent, and what comes back must fit it."""


class Consulted(NamedTuple, Generic[T]):
    """What the model answered, as the task wants it."""

    answer: T
    model: str
    cached: bool


class Unhelped(NamedTuple):
    """No answer, and why: the caller goes by its own rules then."""

    reason: str


def consult(hold: Hold, task: Task[T], material: Sequence[Material]) -> Consulted[T] | Unhelped:
    """A model's answer to a task, or why there is none. Never inside a transaction: a model may take minutes."""
    return Unhelped("no model is set")
