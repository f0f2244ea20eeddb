"""Operations on model usage, prices and budgets."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.usage import price
from holdfast.features.usage import service as usage_service
from holdfast.features.usage.price import KINDS, Price, Tokens, format_rate
from holdfast.features.usage.service import BudgetStatus, ModelCall
from holdfast.features.usage.store import UsageFilter
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.model_allowance import COST_UNITS, format_cost
from holdfast.kernel.registry.fields import Actor, Timestamp
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation, value_or_unset
from holdfast.kernel.timestamps import DAY, format_timestamp, parse_timestamp

MAX_TOKENS = 10**9
Count = Annotated[int, Meta(ge=0, le=MAX_TOKENS)]
Model = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[^\s*]+$", description="Name of the model.")]
ModelPattern = Annotated[str, Meta(min_length=1, max_length=128, description="A model, or a prefix followed by *.")]
PrincipalField = Annotated[
    str, Meta(min_length=1, max_length=128, description="Person or agent that used it. Default: the calling agent.")
]
Key = Annotated[str, Meta(min_length=1, max_length=256, description="Idempotency key: record a call only once.")]
Money = Annotated[str, Meta(min_length=1, max_length=32, description="Amount in the currency, such as 0.30.")]
Currency = Annotated[str, Meta(min_length=3, max_length=3, description="Currency code, such as USD.")]
Group = Literal["day", "principal", "model", "session"]
FIRST_DAY = parse_timestamp("0001-01-01", "day") // DAY


class UsageRecord(Request, frozen=True):
    model: Model
    input_tokens: Annotated[Count, Meta(description="Input tokens, without cached ones.")] = 0
    output_tokens: Annotated[Count, Meta(description="Output tokens.")] = 0
    cache_read_tokens: Annotated[Count, Meta(description="Tokens read from a cache.")] = 0
    cache_write_tokens: Annotated[Count, Meta(description="Tokens written to a cache.")] = 0
    principal: PrincipalField | None = None
    session: Annotated[str, Meta(max_length=256, description="Session of the call.")] = ""
    at: Annotated[Timestamp, Meta(description="Time of the call. Default: now.")] | None = None
    reservation: Annotated[str, Meta(min_length=1, max_length=64, description="Reservation to release.")] | None = None
    unique_key: Key | None = None
    agent_id: Actor | None = None


class UsageRecordResult(Struct, frozen=True, kw_only=True):
    id: str
    recorded: bool
    """False if it was recorded before, under the same key."""
    priced: bool
    """Whether all of its tokens have a price."""
    tokens: int
    cost: str | UnsetType = UNSET
    currency: str | UnsetType = UNSET


@operation(
    Effect.WRITE,
    "POST /api/v1/usage",
    cli=("usage", "record"),
    status=201,
    examples=(
        Example({"model": "model-one", "input_tokens": 1200, "output_tokens": 300, "cache_read_tokens": 9000}),
        Example({"model": "model-one", "input_tokens": -1}, error="VALIDATION_FAILED"),
        Example({"model": "model-one", "reservation": "none"}, error="NOT_FOUND"),
    ),
)
def usage_record(ctx: Context, request: UsageRecord) -> UsageRecordResult:
    """Record the tokens of a model call, at the price of that day."""
    called = _build_call(ctx, request, _read_tokens(request))._replace(
        at=None if request.at is None else parse_timestamp(request.at, "at"), unique_key=request.unique_key
    )
    done = usage_service.record_usage(ctx, called, request.reservation)
    return UsageRecordResult(
        id=done.id,
        recorded=not done.is_repeat,
        priced=done.cost is not None,
        tokens=called.tokens.total,
        cost=UNSET if done.cost is None else format_cost(done.cost),
        currency=value_or_unset(done.currency),
    )


def _read_tokens(request: "UsageRecord | UsageReserve") -> "Tokens":
    return Tokens(request.input_tokens, request.output_tokens, request.cache_read_tokens, request.cache_write_tokens)


def _build_call(ctx: Context, request: "UsageRecord | UsageReserve", tokens: "Tokens") -> "ModelCall":
    return ModelCall(request.model, tokens, request.principal or ctx.caller.agent, request.session)


class UsageReserve(Request, frozen=True):
    model: Model
    input_tokens: Annotated[Count, Meta(description="Maximum input tokens.")] = 0
    output_tokens: Annotated[Count, Meta(description="Maximum output tokens.")] = 0
    cache_read_tokens: Annotated[Count, Meta(description="Maximum tokens read from a cache.")] = 0
    cache_write_tokens: Annotated[Count, Meta(description="Maximum tokens written to a cache.")] = 0
    principal: PrincipalField | None = None
    session: Annotated[str, Meta(max_length=256, description="Session of the call.")] = ""
    seconds: Annotated[int, Meta(ge=1, le=86_400, description="Lifetime of the reservation, in seconds.")] = 900
    agent_id: Actor | None = None


class BudgetView(Struct, frozen=True, kw_only=True):
    principal: str
    """`*` is everyone together."""
    model: str
    period: Literal["day", "month"]
    since: str
    tokens: int | UnsetType = UNSET
    tokens_left: int | UnsetType = UNSET
    cost: str | UnsetType = UNSET
    cost_left: str | UnsetType = UNSET
    currency: str | UnsetType = UNSET


class UsageReserveResult(Struct, frozen=True, kw_only=True):
    reservation: str
    budgets: list[BudgetView]
    """The budgets that cover it, before this reservation."""
    cost: str | UnsetType = UNSET
    currency: str | UnsetType = UNSET


@operation(
    Effect.WRITE,
    "POST /api/v1/usage/reserve",
    cli=("usage", "reserve"),
    examples=(
        Example({"model": "model-one", "input_tokens": 1000, "output_tokens": 500}),
        Example({"model": "*"}, error="VALIDATION_FAILED"),
    ),
)
def usage_reserve(ctx: Context, request: UsageReserve) -> UsageReserveResult:
    """Reserve budget for a model call; fails if a budget would be exceeded."""
    done, left = usage_service.reserve_usage(ctx, _build_call(ctx, request, _read_tokens(request)), request.seconds)
    return UsageReserveResult(
        reservation=done.id,
        budgets=[_budget_view(one) for one in left],
        cost=UNSET if done.cost is None else format_cost(done.cost),
        currency=value_or_unset(done.currency),
    )


class UsageRelease(Request, frozen=True):
    reservation: Annotated[
        str, Meta(min_length=1, max_length=64, description="Id of the reservation.", extra={"argument": True})
    ]
    agent_id: Actor | None = None


class UsageReleaseResult(Struct, frozen=True, kw_only=True):
    reservation: str


@operation(
    Effect.WRITE,
    "POST /api/v1/usage/release",
    cli=("usage", "release"),
    examples=(Example({"reservation": "none"}, error="NOT_FOUND"), Example({"reservation": "84b1f6ca"}, prepared=True)),
)
def usage_release(ctx: Context, request: UsageRelease) -> UsageReleaseResult:
    """Release the reservation of a call that was not made."""
    usage_service.release_reservation(ctx, request.reservation)
    return UsageReleaseResult(reservation=request.reservation)


class UsageReport(Request, frozen=True):
    since: Annotated[Timestamp, Meta(description="First day. Default: 30 days up to `until`.")] | None = None
    until: Annotated[Timestamp, Meta(description="Last day, inclusive. Default: today.")] | None = None
    by: Annotated[
        list[Group],
        Meta(max_length=4, description="Group by day, principal, model or session.", extra={"flag": "group-by"}),
    ] = []
    principal: Annotated[list[str], Meta(max_length=20, description="Only these principals.")] = []
    model: Model | None = None
    session: Annotated[str, Meta(max_length=256, description="Only this session.")] | None = None


class UsageSum(Struct, frozen=True, kw_only=True):
    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    total_tokens: int
    unpriced_calls: int
    """Calls without a price; not included in `cost`."""
    cost: str
    currency: str | UnsetType = UNSET
    day: str | UnsetType = UNSET
    principal: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    session: str | UnsetType = UNSET


class UsageReportResult(Struct, frozen=True, kw_only=True):
    usage: list[UsageSum]
    """One row per group and currency."""
    count: int
    since: str
    until: str


@operation(
    Effect.READ,
    "GET /api/v1/usage",
    cli=("usage", "report"),
    human="holdfast.features.usage.render:render_usage",
    examples=(
        Example({}),
        Example({"by": ["day", "model"], "since": "2026-01-01", "until": "2026-01-31"}),
        Example({"by": ["weekday"]}, error="VALIDATION_FAILED"),
    ),
)
def usage_report(ctx: Context, request: UsageReport) -> UsageReportResult:
    """Sum model usage, in total or by day, principal, model and session."""
    today = ctx.now() // DAY
    until = today if request.until is None else parse_timestamp(request.until, "until") // DAY
    since = max(until - 29, FIRST_DAY) if request.since is None else parse_timestamp(request.since, "since") // DAY
    usage_filter = UsageFilter(
        since, until, frozenset(request.by), tuple(request.principal), request.session, request.model
    )
    found = [
        UsageSum(
            calls=one.calls,
            input_tokens=one.input_tokens,
            output_tokens=one.output_tokens,
            cache_read_tokens=one.cache_read_tokens,
            cache_write_tokens=one.cache_write_tokens,
            total_tokens=one.input_tokens + one.output_tokens + one.cache_read_tokens + one.cache_write_tokens,
            unpriced_calls=one.unpriced,
            cost=format_cost(one.cost),
            currency=value_or_unset(one.currency),
            day=UNSET if one.day is None else _format_day(one.day),
            principal=value_or_unset(one.principal),
            model=value_or_unset(one.model),
            session=value_or_unset(one.session),
        )
        for one in usage_service.sum_usage(ctx, usage_filter)
    ]
    return UsageReportResult(usage=found, count=len(found), since=_format_day(since), until=_format_day(until))


def _format_day(day: int) -> str:
    return format_timestamp(day * DAY)[:10]


class PriceSet(Request, frozen=True):
    model: Annotated[ModelPattern, Meta(extra={"argument": True})]
    since: Annotated[Timestamp, Meta(description="First day of the price. Default: from the beginning.")] | None = None
    currency: Currency = "USD"
    input: Annotated[Money, Meta(description="Price of a million input tokens.")] | None = None
    output: Annotated[Money, Meta(description="Price of a million output tokens.")] | None = None
    cache_read: Annotated[Money, Meta(description="Price of a million tokens read from a cache.")] | None = None
    cache_write: Annotated[Money, Meta(description="Price of a million tokens written to a cache.")] | None = None
    agent_id: Actor | None = None


class PriceView(Struct, frozen=True, kw_only=True):
    model: str
    since: str
    currency: str
    input: str | UnsetType = UNSET
    output: str | UnsetType = UNSET
    cache_read: str | UnsetType = UNSET
    cache_write: str | UnsetType = UNSET


def _price_view(price: "Price") -> PriceView:
    rates = {kind: UNSET if (rate := getattr(price, kind)) is None else format_rate(rate) for kind in KINDS}
    return PriceView(model=price.model, since=format_timestamp(price.since)[:10], currency=price.currency, **rates)


@operation(
    Effect.WRITE,
    "POST /api/v1/prices",
    cli=("usage", "price", "set"),
    aliases=("price set",),
    admin=True,
    examples=(
        Example({"model": "model-*", "input": "3", "output": "15", "cache_read": "0.30", "since": "2026-01-01"}),
        Example({"model": "model-*", "input": "cheap"}, error="VALIDATION_FAILED"),
        Example({"model": "model-*"}, error="VALIDATION_FAILED"),
    ),
)
def price_set(ctx: Context, request: PriceSet) -> PriceView:
    """Set the price of a model from a day on; recorded costs stay."""
    rates = {kind: price.parse_rate(getattr(request, kind), kind) for kind in price.KINDS}
    if all(rate is None for rate in rates.values()):
        raise Invalid("Give at least one of input, output, cache_read and cache_write.", fields=list(price.KINDS))
    since = 0 if request.since is None else parse_timestamp(request.since, "since")
    new = Price(
        model=price.parse_model_pattern(request.model),
        since=since,
        currency=price.parse_currency(request.currency),
        set_by=ctx.caller.agent,
        set_at=ctx.now(),
        **rates,
    )
    usage_service.set_price(ctx, new)
    return _price_view(new)


class Prices(Struct, frozen=True, kw_only=True):
    prices: list[PriceView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/prices",
    cli=("usage", "price", "list"),
    aliases=("price list",),
    human="holdfast.features.usage.render:render_prices",
    examples=(Example({}),),
)
def price_list(ctx: Context, request: EmptyRequest) -> Prices:
    """List model prices, latest first for each model."""
    found = [_price_view(one) for one in usage_service.list_prices(ctx)]
    return Prices(prices=found, count=len(found))


class PriceRemove(Request, frozen=True):
    model: Annotated[ModelPattern, Meta(extra={"argument": True})]
    since: (
        Annotated[Timestamp, Meta(description="First day of the price. Default: the price from the beginning.")] | None
    ) = None
    agent_id: Actor | None = None


@operation(
    Effect.DESTROY,
    "POST /api/v1/prices/remove",
    cli=("usage", "price", "remove"),
    aliases=("price remove",),
    admin=True,
    examples=(Example({"model": "no-such-model"}, error="NOT_FOUND"), Example({"model": "model-one"}, prepared=True)),
)
def price_remove(ctx: Context, request: PriceRemove) -> Prices:
    """Remove a price; recorded costs stay."""
    usage_service.remove_price(
        ctx, request.model, 0 if request.since is None else parse_timestamp(request.since, "since")
    )
    found = [_price_view(one) for one in usage_service.list_prices(ctx)]
    return Prices(prices=found, count=len(found))


class BudgetSet(Request, frozen=True):
    principal: Annotated[
        PrincipalField, Meta(description="Person or agent; `*` is everyone together.", extra={"argument": True})
    ]
    period: Annotated[Literal["day", "month"], Meta(description="Budget per day or per month (UTC).")] = "day"
    model: ModelPattern = "*"
    tokens: Annotated[int, Meta(ge=0, le=10**15, description="Maximum tokens per period.")] | None = None
    cost: Annotated[Money, Meta(description="Maximum cost per period.")] | None = None
    currency: Currency = "USD"
    lift: Annotated[bool, Meta(description="Remove the budget.")] = False
    agent_id: Actor | None = None


def _budget_view(status: "BudgetStatus") -> BudgetView:
    budget = status.budget
    return BudgetView(
        principal=budget.principal,
        model=budget.model,
        period=budget.period,
        since=_format_day(status.since),
        tokens=value_or_unset(budget.tokens),
        tokens_left=UNSET if status.tokens_left is None else max(status.tokens_left, 0),
        cost=UNSET if budget.cost is None else format_cost(budget.cost),
        cost_left=UNSET if status.cost_left is None else format_cost(max(status.cost_left, 0)),
        currency=value_or_unset(budget.currency),
    )


@operation(
    Effect.WRITE,
    "POST /api/v1/budgets",
    cli=("usage", "budget", "set"),
    aliases=("budget set",),
    admin=True,
    examples=(
        Example({"principal": "*", "period": "month", "cost": "50"}),
        Example({"principal": "ann"}, error="VALIDATION_FAILED"),
        Example({"principal": "nobody", "lift": True}, error="NOT_FOUND"),
        Example({"principal": "ann", "tokens": 100000}, prepared=True),
        Example({"principal": "*", "period": "month", "cost": "50"}, prepared=True),
    ),
)
def budget_set(ctx: Context, request: BudgetSet) -> BudgetView:
    """Set a daily or monthly budget; reservations above it are refused."""
    cost = price.parse_rate(request.cost, "cost")
    if request.lift == (request.tokens is not None or cost is not None):
        raise Invalid("Give tokens or cost, or lift to remove the budget.", fields=["tokens", "cost", "lift"])
    done = usage_service.set_budget(
        ctx,
        request.principal,
        price.parse_model_pattern(request.model),
        request.period,
        tokens=request.tokens,
        cost=None if cost is None else cost * (COST_UNITS // 1_000_000),
        currency=None if cost is None else price.parse_currency(request.currency),
    )
    return _budget_view(done)


class Budgets(Struct, frozen=True, kw_only=True):
    budgets: list[BudgetView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/budgets",
    cli=("usage", "budget", "list"),
    aliases=("budget list",),
    human="holdfast.features.usage.render:render_budgets",
    examples=(Example({}),),
)
def budget_list(ctx: Context, request: EmptyRequest) -> Budgets:
    """List your budgets and what is left of each."""
    found = [_budget_view(one) for one in usage_service.list_budget_status(ctx)]
    return Budgets(budgets=found, count=len(found))
