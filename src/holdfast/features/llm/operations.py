"""The model that may help: whether it works, and what it took."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.llm import store as consulted
from holdfast.features.llm import test_model as try_model
from holdfast.features.llm.store import LEDGER_DAYS, Usage
from holdfast.features.llm.test_model import budget as budget_of
from holdfast.kernel.context import Hold
from holdfast.kernel.model_allowance import amount
from holdfast.kernel.registry.operation import Effect, Example, Nothing, Request, operation
from holdfast.kernel.timestamps import DAY, to_text


class ModelReport(Struct, frozen=True, kw_only=True):
    status: Literal["ok", "critical"]
    provider: str
    model: str
    """The one that is set."""
    answered_by: str | UnsetType = UNSET
    """Who says that it answered."""
    host: str | UnsetType = UNSET
    reachable: bool
    """Whether its host answered, be it with a refusal: `status` says whether it works."""
    json: bool
    """Whether its answer fitted the schema."""
    latency_ms: int
    problem: str | UnsetType = UNSET
    daily_tokens: int
    left_today: int


@operation(
    Effect.WRITE,
    "POST /api/v1/llm/test",
    family="other",
    asks=True,
    admin=True,
    cli=("llm", "test"),
    examples=(Example({}, error="MODEL_FAILED"),),
)
def llm_test(hold: Hold, request: Nothing) -> ModelReport:
    """Ask the model that is set a small question, and say whether that works and how long it took.

    It takes a few hundred tokens of the day's budget. Everything works without a model as well.
    """
    model, tried = try_model.try_model(hold)
    budget = try_model.budget(hold)
    return ModelReport(
        status="ok" if tried.problem is None else "critical",
        provider=model.provider,
        model=model.name,
        answered_by=tried.model or UNSET,
        host=model.host or UNSET,
        reachable=tried.answered,
        json=tried.fits,
        latency_ms=tried.milliseconds,
        problem=tried.problem or UNSET,
        daily_tokens=budget.daily,
        left_today=budget.left,
    )


class LlmUsage(Request, frozen=True):
    days: Annotated[int, Meta(ge=1, le=LEDGER_DAYS, description="Of the last so many days, today among them.")] = 30


class UsageView(Struct, frozen=True, kw_only=True):
    day: str
    task: str
    model: str
    calls: int
    answered: int
    """Those whose answer could be used."""
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    """Those of the input that the provider had in its cache."""
    spent_tokens: int
    """What counts against the day: of a call that broke off, the most that it can have taken."""
    cost: str
    """In your currency, by the prices that are set; exact."""


class UsagePage(Struct, frozen=True, kw_only=True):
    usage: list[UsageView]
    count: int
    cost: str
    daily_tokens: int
    spent_today: int
    left_today: int


@operation(
    Effect.READ,
    "GET /api/v1/llm/usage",
    family="other",
    admin=True,
    cli=("llm", "usage"),
    examples=(Example({}), Example({"days": 1}), Example({"days": 0}, error="VALIDATION_FAILED")),
)
def llm_usage(hold: Hold, request: LlmUsage) -> UsagePage:
    """Say what models took, by day, task and model, and what is left of today's budget."""
    with hold.reading() as session:
        found = consulted.usage(session, hold.now(), request.days)
        budget = budget_of(hold)
    return UsagePage(
        usage=[_view(one) for one in found],
        count=len(found),
        cost=amount(sum(one.cost for one in found)),
        daily_tokens=budget.daily,
        spent_today=budget.spent,
        left_today=budget.left,
    )


def _view(one: Usage) -> UsageView:
    return UsageView(
        day=to_text(one.day * DAY)[:10],
        task=one.task,
        model=one.model,
        calls=one.calls,
        answered=one.answered,
        input_tokens=one.input_tokens,
        output_tokens=one.output_tokens,
        cached_tokens=one.cached_tokens,
        spent_tokens=one.spent,
        cost=amount(one.cost),
    )
