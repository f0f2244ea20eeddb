"""Operations: test the model, report its usage."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.llm import check_model
from holdfast.features.llm import store as llm_store
from holdfast.features.llm.check_model import read_budget
from holdfast.features.llm.store import USAGE_DAYS, UsageRow
from holdfast.kernel.context import Context
from holdfast.kernel.model_allowance import format_cost
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation
from holdfast.kernel.timestamps import DAY, format_timestamp


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
    cli=("admin", "llm", "test"),
    aliases=("llm test",),
    asks=True,
    admin=True,
    examples=(Example({}, error="MODEL_FAILED"), Example({}, prepared=True)),
)
def llm_test(ctx: Context, request: EmptyRequest) -> ModelReport:
    """Test the configured model with a small question.

    Uses a few hundred tokens of the daily budget. Every feature also works without a model.
    """
    model, tried = check_model.check_model(ctx)
    budget = check_model.read_budget(ctx)
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
        left_today=budget.remaining,
    )


class LlmUsage(Request, frozen=True):
    days: Annotated[int, Meta(ge=1, le=USAGE_DAYS, description="Number of days, including today.")] = 30


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
    cli=("admin", "llm", "usage"),
    aliases=("llm usage",),
    admin=True,
    examples=(Example({}), Example({"days": 1}), Example({"days": 0}, error="VALIDATION_FAILED")),
)
def llm_usage(ctx: Context, request: LlmUsage) -> UsagePage:
    """Show model usage by day, task and model, and today's remaining budget."""
    with ctx.reading() as session:
        found = llm_store.list_usage(session, ctx.now(), request.days)
        budget = read_budget(ctx)
    return UsagePage(
        usage=[_usage_view(one) for one in found],
        count=len(found),
        cost=format_cost(sum(one.cost for one in found)),
        daily_tokens=budget.daily,
        spent_today=budget.spent,
        left_today=budget.remaining,
    )


def _usage_view(one: UsageRow) -> UsageView:
    return UsageView(**one._asdict() | {"day": format_timestamp(one.day * DAY)[:10], "cost": format_cost(one.cost)})
