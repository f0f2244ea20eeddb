"""Token prices by date. Integers, so sums are exact."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Literal, NamedTuple

from holdfast.kernel.errors import Invalid
from holdfast.kernel.timestamps import DAY

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


class Price(NamedTuple):
    """Price of a model from a day on: millionths per million tokens of each kind. None: no price."""

    model: str
    """A name, or a prefix followed by *."""
    since: int
    currency: str
    input: int | None
    output: int | None
    cache_read: int | None
    cache_write: int | None

    def matches(self, model: str) -> bool:
        return model.startswith(self.model[:-1]) if self.model.endswith("*") else model == self.model

    def cost(self, tokens: Tokens) -> int | None:
        """Compute the exact cost in units of 10^-12 of the currency; None if a needed price is missing."""
        rates = (self.input, self.output, self.cache_read, self.cache_write)
        priced = [(many, rate) for many, rate in zip(tokens, rates, strict=True) if many]
        if any(rate is None for _, rate in priced):
            return None
        return sum(many * rate for many, rate in priced if rate is not None)


def find_price(prices: Iterable[Price], model: str, at: int) -> Price | None:
    """Find the price of a model at a time: the most specific name, then the latest start."""
    fit = [price for price in prices if price.matches(model) and price.since <= at]
    return max(fit, key=lambda price: (not price.model.endswith("*"), len(price.model), price.since), default=None)


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
