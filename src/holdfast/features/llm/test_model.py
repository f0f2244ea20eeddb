"""Test whether the configured model works."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

from msgspec import Struct

from holdfast.features.llm import store as consulted
from holdfast.features.llm.client import Consulted, Material, Task, consult
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.language_model import Model


class Repeated(Struct, frozen=True):
    """The expected answer."""

    word: str


TASK = Task("test", "Answer with the single word in the material.", Repeated, most_tokens=256)


NONE = "No model is set: set `llm` to openai, anthropic, ollama or sampling."


class Tried(NamedTuple):
    """The outcome of a test call."""

    answered: bool
    fits: bool
    milliseconds: int
    model: str | None
    problem: str | None


def try_model(hold: Hold) -> tuple[Model, Tried]:
    """Ask the model a new question: a cached answer would prove nothing."""
    if hold.model is None:
        raise ModelFailed(NONE)
    began = perf_counter()
    word = hold.new_id()
    found = consult(hold, TASK, [Material("word", word)])
    took = round((perf_counter() - began) * 1000)
    if isinstance(found, Consulted):
        problem = None if found.answer.word == word else "The answer has the right form but is wrong."
        return hold.model, Tried(True, True, took, found.model, problem)
    return hold.model, Tried(found.answered, False, took, None, found.reason)


class Budget(NamedTuple):
    """Today's token budget."""

    daily: int
    spent: int

    @property
    def left(self) -> int:
        return max(0, self.daily - self.spent)


def budget(hold: Hold) -> Budget:
    with hold.reading() as session:
        return Budget(hold.allowance.daily_tokens, consulted.spent(session, hold.now()))
