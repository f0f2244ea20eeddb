"""Test whether the configured model works."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

from msgspec import Struct

from holdfast.features.llm.client import Material, ModelAnswer, Task, ask_model
from holdfast.features.usage import model_calls
from holdfast.kernel.context import Context
from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.language_model import Model


class WordAnswer(Struct, frozen=True):
    """The expected answer."""

    word: str


TASK = Task("test", "Answer with the single word in the material.", WordAnswer, max_tokens=256)


NO_MODEL_MESSAGE = "No model is set: set `llm` to openai, anthropic, ollama or sampling."


class CheckResult(NamedTuple):
    """The outcome of a test call."""

    answered: bool
    fits: bool
    milliseconds: int
    model: str | None
    problem: str | None


def check_model(ctx: Context) -> tuple[Model, CheckResult]:
    """Ask the model a new question: a cached answer would prove nothing."""
    if ctx.model is None:
        raise ModelFailed(NO_MODEL_MESSAGE)
    began = perf_counter()
    word = ctx.new_id()
    found = ask_model(ctx, TASK, [Material("word", word)])
    took = round((perf_counter() - began) * 1000)
    if isinstance(found, ModelAnswer):
        problem = None if found.answer.word == word else "The answer has the right form but is wrong."
        return ctx.model, CheckResult(True, True, took, found.model, problem)
    return ctx.model, CheckResult(found.answered, False, took, None, found.reason)


class TokenBudget(NamedTuple):
    """Today's token budget."""

    daily: int
    spent: int

    @property
    def remaining(self) -> int:
        return max(0, self.daily - self.spent)


def read_budget(ctx: Context) -> TokenBudget:
    with ctx.reading() as session:
        return TokenBudget(ctx.allowance.daily_tokens, model_calls.count_spent(session, ctx.now()))
