"""Token prices by date, budgets and recorded calls. Integers, so sums are exact."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from holdfast.kernel.errors import Invalid
from holdfast.kernel.model_allowance import COST_UNITS, format_cost, parse_cost
from holdfast.kernel.records.fields import (
    PRIVATE,
    Agent,
    Count,
    ExportAs,
    Mark,
    Named,
    OptionalShortText,
    ShortText,
    Text,
    Timestamp,
    computed,
)
from holdfast.kernel.timestamps import DAY, derive_id, format_timestamp

KINDS = ("input", "output", "cache_read", "cache_write")
Period = Literal["day", "month"]
ANY = "*"
"""Matches every principal or every model."""
MAX_PRICE = 10**10
"""Maximum price: millionths of the currency unit per million tokens."""

_CURRENCY = re.compile(r"[A-Z]{3}")
_MODEL = re.compile(r"[^\s*\x00-\x1f\x7f]{1,127}\*?|\*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Tokens(NamedTuple):
    """Tokens of one call, each counted once: cached tokens are not part of the input."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        return sum(self)


def matches_model(pattern: str, model: str) -> bool:
    """Whether a model has this name, or begins with it if it ends with *."""
    return model.startswith(pattern[:-1]) if pattern.endswith("*") else model == pattern


def parse_rate(text: str | None, field: str) -> int | None:
    """Parse a price per million tokens, such as 0.30, into millionths."""
    if text is None:
        return None
    try:
        exact = Decimal(text) * 1_000_000
    except InvalidOperation:
        raise Invalid(f"{field}: must be a number such as 0.30", fields=[field]) from None
    if not exact.is_finite() or exact != int(exact) or not 0 <= exact <= MAX_PRICE:
        raise Invalid(f"{field}: must be 0 to {MAX_PRICE // 1_000_000:,}, with at most six decimals", fields=[field])
    return int(exact)


def format_rate(rate: int) -> str:
    """Format a price per million tokens, exactly."""
    return format_cost(rate * (COST_UNITS // 1_000_000))


def format_day(day: int) -> str:
    return format_timestamp(day * DAY)[:10]


Day = Annotated[int, ExportAs(format=format_day)]
"""Days since 1970-01-01."""
Money = Annotated[str, Meta(min_length=1, max_length=40)]
Cost = Annotated[int, ExportAs(type=Money, format=format_cost, parse=parse_cost)]
"""Units of 10^-12 of the currency."""
Rate = Annotated[int, ExportAs(type=Money, format=format_rate, parse=parse_rate)]
"""Millionths of the currency unit per million tokens."""


class Price(Struct, frozen=True, kw_only=True):
    """Price of a model from a day on, for each kind of tokens. None: no price."""

    model: ShortText
    """A name, or a prefix followed by *."""
    since: Annotated[Timestamp, PRIVATE]
    currency: OptionalShortText
    input: Rate | None = None
    output: Rate | None = None
    cache_read: Rate | None = None
    cache_write: Rate | None = None
    set_by: Annotated[str, PRIVATE]
    set_at: Annotated[Timestamp, PRIVATE]

    @computed
    def since_day(self) -> Annotated[Day, Named("since")]:
        return self.since // DAY

    def cost(self, tokens: Tokens) -> int | None:
        """Compute the exact cost in units of 10^-12 of the currency; None if a needed price is missing."""
        rates = (self.input, self.output, self.cache_read, self.cache_write)
        priced = [(many, rate) for many, rate in zip(tokens, rates, strict=True) if many]
        if any(rate is None for _, rate in priced):
            return None
        return sum(many * rate for many, rate in priced if rate is not None)


class Budget(Struct, frozen=True, kw_only=True):
    """A limit on tokens or cost per period."""

    id: Annotated[str, Mark.LOCAL, PRIVATE] = ""
    principal: Annotated[ShortText, Mark.FIXED]
    """`*` is everyone together."""
    model: Annotated[ShortText, Mark.FIXED]
    period: Annotated[Period, Mark.FIXED]
    tokens: Count | None = None
    cost: Cost | None = None
    currency: OptionalShortText | None = None
    set_by: Annotated[str, PRIVATE]
    set_at: Annotated[Timestamp, PRIVATE]

    def covers(self, names: tuple[str, ...], model: str) -> bool:
        return (self.principal == ANY or self.principal in names) and matches_model(self.model, model)


class BudgetStatus(Budget, frozen=True, kw_only=True):
    """A budget and what is left of it in the current period."""

    since: Day
    """First day of the period."""
    tokens_used: Annotated[int, PRIVATE]
    cost_used: Annotated[Cost, PRIVATE]

    @computed
    def tokens_left(self) -> int | None:
        return None if self.tokens is None else max(self.tokens - self.tokens_used, 0)

    @computed
    def cost_left(self) -> Cost | None:
        return None if self.cost is None else max(self.cost - self.cost_used, 0)


def derive_budget_id(principal: str, model: str, period: Period) -> str:
    """There is one budget for a principal, a model and a period."""
    return derive_id("budget", principal, model, period)


class Use(Struct, frozen=True, kw_only=True):
    """One call of a model, or a reservation for one."""

    id: Text
    at: Timestamp
    day: Annotated[int, Mark.LOCAL] = 0
    principal: ShortText
    agent: Agent
    session: OptionalShortText = ""
    model: ShortText
    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    cost: Cost | None = None
    """None: there was no price for this model."""
    currency: OptionalShortText | None = None
    state: Annotated[Literal["kept", "reserved"], Mark.LOCAL] = "kept"
    ends_at: Annotated[int | None, Mark.LOCAL] = None
    unique_key: ShortText | None = None
    task: Annotated[str | None, Mark.LOCAL] = None
    """What the store's own model was asked; None for a call that an agent reports: budgets and reports count those."""
    outcome: Annotated[Literal["asked", "answered", "unfit", "failed"] | None, Mark.LOCAL] = None
    spent: Annotated[int | None, Mark.LOCAL] = None
    """Tokens of an own call that count against the daily limit: the most it can use, until it is known."""

    @property
    def tokens(self) -> Tokens:
        return Tokens(self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens)


class ModelUsage(Struct, frozen=True):
    """Calls of the store's own model, of a task and a day."""

    day: Day
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
    cost: Cost
    """Exact cost in your currency, by the configured prices."""


def find_price(prices: Iterable[Price], model: str, at: int) -> Price | None:
    """Find the price of a model at a time: the most specific name, then the latest start."""
    fit = [price for price in prices if matches_model(price.model, model) and price.since <= at]
    return max(fit, key=lambda price: (not price.model.endswith("*"), len(price.model), price.since), default=None)


def parse_currency(text: str) -> str:
    if not _CURRENCY.fullmatch(text):
        raise Invalid("currency: must be three capital letters, such as USD", fields=["currency"])
    return text


def parse_model_pattern(text: str) -> str:
    """Check a model name, or a prefix followed by *."""
    if not _MODEL.fullmatch(text):
        raise Invalid("model: must be a name, or a prefix followed by *", fields=["model"])
    return text


def period_start(period: Period, now: int) -> int:
    """Return the first day of the current period, in days since 1970."""
    day = now // DAY
    if period == "day":
        return day
    return day - (_EPOCH + timedelta(days=day)).day + 1
