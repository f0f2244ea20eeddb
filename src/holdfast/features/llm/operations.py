"""Operations: test the model, report its usage."""

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
    """The configured model."""
    answered_by: str | UnsetType = UNSET
    """The model named in the response."""
    host: str | UnsetType = UNSET
    reachable: bool
    """Whether its host responded, even with an error; see `status`."""
    json: bool
    """Whether its answer matched the schema."""
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
    """Test the configured model with a small question.

    Uses a few hundred tokens of the daily budget. Every feature also works without a model.
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
    days: Annotated[int, Meta(ge=1, le=LEDGER_DAYS, description="Number of days, including today.")] = 30


class UsageView(Struct, frozen=True, kw_only=True):
    day: str
    task: str
    model: str
    calls: int
    answered: int
    """Calls with a valid answer."""
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    """Input tokens read from the provider's cache."""
    spent_tokens: int
    """Tokens counted against the daily budget; for an aborted call, the maximum it can have used."""
    cost: str
    """Exact cost in your currency, by the configured prices."""


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
    """Show model usage by day, task and model, and today's remaining budget."""
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
