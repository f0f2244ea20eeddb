"""Operations: test the model, report its usage."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.features.llm.check_model import ModelReport, check_model, read_budget
from holdfast.features.usage import service as usage_service
from holdfast.features.usage.price import Cost, ModelUsage
from holdfast.features.usage.service import USAGE_DAYS
from holdfast.kernel.context import Context
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation


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
    return check_model(ctx)


class LlmUsage(Request, frozen=True):
    days: Annotated[int, Meta(ge=1, le=USAGE_DAYS, description="Number of days, including today.")] = 30


class UsagePage(Struct, frozen=True, kw_only=True):
    usage: list[ModelUsage]
    count: int
    cost: Cost
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
        found = usage_service.list_usage(session, ctx.now(), request.days)
        budget = read_budget(ctx)
    return UsagePage(
        usage=found,
        count=len(found),
        cost=sum(one.cost for one in found),
        daily_tokens=budget.daily,
        spent_today=budget.spent,
        left_today=budget.remaining,
    )
