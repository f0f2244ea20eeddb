"""What a model may take in a day, and what it costs: whole numbers, so that nothing is lost by adding."""

from typing import NamedTuple

MARGIN = 3, 2
"""What a question is taken to have at most, for its counted tokens: providers divide texts in ways of their own."""
PARTS = 10**12
"""Of the currency's unit, in which costs are kept: a token at a price in millionths for a million tokens."""


class Allowance(NamedTuple):
    """The most tokens of a day, and prices in millionths of a currency's unit for a million tokens."""

    daily_tokens: int = 1_000_000
    price_in: int = 0
    price_out: int = 0

    def cost(self, input_tokens: int, output_tokens: int) -> int:
        """Exactly, in the smallest parts."""
        return input_tokens * self.price_in + output_tokens * self.price_out


def reserved(input_tokens: int, most_tokens: int) -> int:
    """What a call is taken to need until it is known."""
    more, of = MARGIN
    return input_tokens * more // of + most_tokens


def amount(cost: int) -> str:
    """A cost in the currency's unit, written out exactly."""
    whole, rest = divmod(cost, PARTS)
    return f"{whole}.{rest:012d}".rstrip("0").rstrip(".")
