"""Operations on model usage, prices and budgets."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.features.usage import price
from holdfast.features.usage import service as usage_service
from holdfast.features.usage.price import Budget, BudgetStatus, Cost, Day, Period, Price, Use
from holdfast.features.usage.store import UsageFilter, UsageSum
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.model_allowance import COST_UNITS
from holdfast.kernel.registry.fields import Actor, Timestamp
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation
from holdfast.kernel.timestamps import DAY, parse_timestamp

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
    cost: Cost | None = None
    currency: str | None = None


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
    at = ctx.now() if request.at is None else parse_timestamp(request.at, "at")
    call = _build_call(ctx, request, at, request.unique_key)
    use, is_repeat = usage_service.record_usage(ctx, call, request.reservation)
    return UsageRecordResult(
        id=use.id,
        recorded=not is_repeat,
        priced=use.cost is not None,
        tokens=use.tokens.total,
        cost=use.cost,
        currency=use.currency,
    )


def _build_call(ctx: Context, request: "UsageRecord | UsageReserve", at: int, unique_key: str | None = None) -> Use:
    """Build the call that is recorded or reserved; its cost is not known yet."""
    return Use(
        id=ctx.new_id(),
        at=at,
        day=at // DAY,
        principal=request.principal or ctx.caller.agent,
        agent=ctx.caller.agent,
        session=request.session,
        model=request.model,
        input_tokens=request.input_tokens,
        output_tokens=request.output_tokens,
        cache_read_tokens=request.cache_read_tokens,
        cache_write_tokens=request.cache_write_tokens,
        unique_key=unique_key,
    )


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


class UsageReserveResult(Struct, frozen=True, kw_only=True):
    reservation: str
    budgets: list[BudgetStatus]
    """The budgets that cover it, before this reservation."""
    cost: Cost | None = None
    currency: str | None = None


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
    use, budgets = usage_service.reserve_usage(ctx, _build_call(ctx, request, ctx.now()), request.seconds)
    return UsageReserveResult(reservation=use.id, budgets=budgets, cost=use.cost, currency=use.currency)


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


class UsageReportResult(Struct, frozen=True, kw_only=True):
    usage: list[UsageSum]
    """One row per group and currency."""
    count: int
    since: Day
    until: Day


@operation(
    Effect.READ,
    "GET /api/v1/usage",
    cli=("usage", "report"),
    columns=(
        *("day", "principal", "model", "session", "calls", "unpriced_calls"),
        *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost", "currency"),
    ),
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
    found = usage_service.sum_usage(ctx, usage_filter)
    return UsageReportResult(usage=found, count=len(found), since=since, until=until)


class PriceSet(Request, frozen=True):
    model: Annotated[ModelPattern, Meta(extra={"argument": True})]
    since: Annotated[Timestamp, Meta(description="First day of the price. Default: from the beginning.")] | None = None
    currency: Currency = "USD"
    input: Annotated[Money, Meta(description="Price of a million input tokens.")] | None = None
    output: Annotated[Money, Meta(description="Price of a million output tokens.")] | None = None
    cache_read: Annotated[Money, Meta(description="Price of a million tokens read from a cache.")] | None = None
    cache_write: Annotated[Money, Meta(description="Price of a million tokens written to a cache.")] | None = None
    agent_id: Actor | None = None


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
def price_set(ctx: Context, request: PriceSet) -> Price:
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
    return usage_service.set_price(ctx, new)


class Prices(Struct, frozen=True, kw_only=True):
    prices: list[Price]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/prices",
    cli=("usage", "price", "list"),
    aliases=("price list",),
    columns=("model", "since", "currency", "input", "output", "cache_read", "cache_write"),
    examples=(Example({}),),
)
def price_list(ctx: Context, request: EmptyRequest) -> Prices:
    """List model prices, latest first for each model."""
    found = usage_service.list_prices(ctx)
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
    found = usage_service.list_prices(ctx)
    return Prices(prices=found, count=len(found))


class BudgetSet(Request, frozen=True):
    principal: Annotated[
        PrincipalField, Meta(description="Person or agent; `*` is everyone together.", extra={"argument": True})
    ]
    period: Annotated[Period, Meta(description="Budget per day or per month (UTC).")] = "day"
    model: ModelPattern = "*"
    tokens: Annotated[int, Meta(ge=0, le=10**15, description="Maximum tokens per period.")] | None = None
    cost: Annotated[Money, Meta(description="Maximum cost per period.")] | None = None
    currency: Currency = "USD"
    lift: Annotated[bool, Meta(description="Remove the budget.")] = False
    agent_id: Actor | None = None


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
def budget_set(ctx: Context, request: BudgetSet) -> BudgetStatus:
    """Set a daily or monthly budget; reservations above it are refused."""
    cost = price.parse_rate(request.cost, "cost")
    if request.lift == (request.tokens is not None or cost is not None):
        raise Invalid("Give tokens or cost, or lift to remove the budget.", fields=["tokens", "cost", "lift"])
    model = price.parse_model_pattern(request.model)
    budget = Budget(
        id=price.derive_budget_id(request.principal, model, request.period),
        principal=request.principal,
        model=model,
        period=request.period,
        tokens=request.tokens,
        cost=None if cost is None else cost * (COST_UNITS // 1_000_000),
        currency=None if cost is None else price.parse_currency(request.currency),
        set_by=ctx.caller.agent,
        set_at=ctx.now(),
    )
    return usage_service.set_budget(ctx, budget)


class Budgets(Struct, frozen=True, kw_only=True):
    budgets: list[BudgetStatus]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/budgets",
    cli=("usage", "budget", "list"),
    aliases=("budget list",),
    columns=("principal", "model", "period", "tokens_left", "tokens", "cost_left", "cost", "currency"),
    examples=(Example({}),),
)
def budget_list(ctx: Context, request: EmptyRequest) -> Budgets:
    """List your budgets and what is left of each."""
    found = usage_service.list_budget_status(ctx)
    return Budgets(budgets=found, count=len(found))
