"""What tokens cost: prices with a date, whole numbers, so that nothing is lost by adding."""

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
"""Every principal, or every model."""
MOST_PRICE = 10**10
"""Millionths of a currency's unit for a million tokens."""

_CURRENCY = re.compile(r"[A-Z]{3}")
_MODEL = re.compile(r"[^\s*\x00-\x1f\x7f]{1,127}\*?|\*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Tokens(NamedTuple):
    """Tokens of one call, each counted once: what came from a cache is not among the input."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        return sum(self)


class Price(NamedTuple):
    """What a model costs from a day on: for a million tokens of each kind, in millionths. None: nobody has said."""

    model: str
    """A name, or the beginning of names with a * at its end."""
    since: int
    currency: str
    input: int | None
    output: int | None
    cache_read: int | None
    cache_write: int | None

    def fits(self, model: str) -> bool:
        return model.startswith(self.model[:-1]) if self.model.endswith("*") else model == self.model

    def cost(self, tokens: Tokens) -> int | None:
        """Exactly, in billionths of millionths; None if a kind of token has no price that it needs."""
        rates = (self.input, self.output, self.cache_read, self.cache_write)
        priced = [(many, rate) for many, rate in zip(tokens, rates, strict=True) if many]
        if any(rate is None for _, rate in priced):
            return None
        return sum(many * rate for many, rate in priced if rate is not None)


def price_of(prices: Iterable[Price], model: str, at: int) -> Price | None:
    """The price of a model at a moment: the closest name, and of that the latest that had begun."""
    fit = [price for price in prices if price.fits(model) and price.since <= at]
    return max(fit, key=lambda price: (not price.model.endswith("*"), len(price.model), price.since), default=None)


def rate(text: str | None, field: str) -> int | None:
    """A price for a million tokens, written as a number such as 0.30, in millionths."""
    if text is None:
        return None
    try:
        exact = Decimal(text) * 1_000_000
    except InvalidOperation:
        raise Invalid(f"{field}: write a number such as 0.30", fields=[field]) from None
    if not exact.is_finite() or exact != int(exact) or not 0 <= exact <= MOST_PRICE:
        raise Invalid(f"{field}: from 0 to {MOST_PRICE // 1_000_000:,}, with at most six places", fields=[field])
    return int(exact)


def currency(text: str) -> str:
    if not _CURRENCY.fullmatch(text):
        raise Invalid("currency: three capital letters, such as USD", fields=["currency"])
    return text


def pattern(text: str) -> str:
    """The name of a model, or the beginning of several with a * at its end."""
    if not _MODEL.fullmatch(text):
        raise Invalid("model: a name, or the beginning of names with one * at its end", fields=["model"])
    return text


def began(period: Period, now: int) -> int:
    """The first day of the period, in days since 1970."""
    day = now // DAY
    if period == "day":
        return day
    return day - (_EPOCH + timedelta(days=day)).day + 1
