"""Daily token limit and cost of a model. Costs are integers, so that sums are exact."""

from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from holdfast.kernel.errors import Invalid

TOKEN_MARGIN = 3, 2
"""Upper bound of a prompt's tokens, as a multiple of our count: providers use their own tokenizers."""
COST_UNITS = 10**12
"""Cost units per currency unit: a price is in millionths per million tokens."""
MAX_COST = (1 << 63) - 1


class Allowance(NamedTuple):
    """Daily token limit, and prices in millionths of a currency unit per million tokens."""

    daily_tokens: int = 1_000_000
    price_in: int = 0
    price_out: int = 0

    def cost(self, input_tokens: int, output_tokens: int) -> int:
        """Return the exact cost in cost units."""
        return input_tokens * self.price_in + output_tokens * self.price_out


def estimate_tokens(input_tokens: int, max_tokens: int) -> int:
    """Estimate the tokens of a call from above, until the provider reports them."""
    more, of = TOKEN_MARGIN
    return input_tokens * more // of + max_tokens


def format_cost(cost: int) -> str:
    """Format a cost in currency units, exactly."""
    whole, rest = divmod(cost, COST_UNITS)
    return f"{whole}.{rest:012d}".rstrip("0").rstrip(".")


def parse_cost(text: str, field: str) -> int:
    """Convert a cost in currency units to the smallest parts, exactly."""
    try:
        exact = Decimal(text) * COST_UNITS
    except InvalidOperation:
        raise Invalid(f"{field}: must be a number such as 0.30", fields=[field]) from None
    if not exact.is_finite() or not 0 <= exact <= MAX_COST or exact != int(exact):
        raise Invalid(
            f"{field}: must be from 0 to {MAX_COST // COST_UNITS}, with at most twelve decimals", fields=[field]
        )
    return int(exact)
