"""Test whether the configured model works."""

from time import perf_counter
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.llm.client import Material, NoAnswer, Task, ask_model
from holdfast.features.usage import service as usage_service
from holdfast.kernel.context import Context
from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.records.fields import computed


class WordAnswer(Struct, frozen=True):
    """The expected answer."""

    word: str


TASK = Task("test", "Answer with the single word in the material.", WordAnswer, max_tokens=256)


NO_MODEL_MESSAGE = "No model is set: set `llm` to openai, anthropic, ollama or sampling."


class ModelReport(Struct, frozen=True, kw_only=True):
    """The outcome of a test call."""

    provider: str
    model: str
    """The configured model."""
    answered_by: str | None = None
    """The model named in the response."""
    host: str | None = None
    reachable: bool
    """Whether its host responded, even with an error; see `status`."""
    json: bool
    """Whether its answer matched the schema."""
    latency_ms: int
    problem: str | None = None
    daily_tokens: int
    left_today: int

    @computed
    def status(self) -> Literal["ok", "critical"]:
        return "ok" if self.problem is None else "critical"


def check_model(ctx: Context) -> ModelReport:
    """Ask the model a new question: a cached answer would prove nothing."""
    if (model := ctx.model) is None:
        raise ModelFailed(NO_MODEL_MESSAGE)
    began, word = perf_counter(), ctx.new_id()
    found = ask_model(ctx, TASK, [Material("word", word)])
    took = round((perf_counter() - began) * 1000)
    budget = read_budget(ctx)
    report = ModelReport(
        provider=model.provider,
        model=model.name,
        host=model.host or None,
        reachable=True,
        json=True,
        latency_ms=took,
        daily_tokens=budget.daily,
        left_today=budget.remaining,
    )
    if isinstance(found, NoAnswer):
        return replace(report, reachable=found.answered, json=False, problem=found.reason)
    is_right = found.answer.word == word
    problem = None if is_right else "The answer has the right form but is wrong."
    return replace(report, answered_by=found.model or None, problem=problem)


class TokenBudget(NamedTuple):
    """Today's token budget."""

    daily: int
    spent: int

    @property
    def remaining(self) -> int:
        return max(0, self.daily - self.spent)


def read_budget(ctx: Context) -> TokenBudget:
    with ctx.reading() as session:
        return TokenBudget(ctx.allowance.daily_tokens, usage_service.count_spent(session, ctx.now()))
