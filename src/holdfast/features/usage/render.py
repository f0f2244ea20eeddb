"""Terminal output of usage, prices and budgets."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import render_table, shorten

GROUPS = ("day", "principal", "model", "session")
KINDS = ("input", "output", "cache_read", "cache_write")


def render_usage(answer: Any) -> Iterator[str]:
    """Print one row for each group, with its cost."""
    if not answer.usage:
        yield f"No usage from {answer.since} to {answer.until}."
        return
    groups = [name for name in GROUPS if any(isinstance(getattr(one, name), str) for one in answer.usage)]
    rows = [
        (
            *(shorten(_format_optional(getattr(one, name)), 40) for name in groups),
            f"{one.calls:,}",
            f"{one.input_tokens:,}",
            f"{one.output_tokens:,}",
            f"{one.cache_read_tokens:,}",
            f"{one.cache_write_tokens:,}",
            f"{one.cost} {_format_optional(one.currency)}".strip()
            + (f" ({one.unpriced_calls} unpriced)" if one.unpriced_calls else ""),
        )
        for one in answer.usage
    ]
    head = (*(name.upper() for name in groups), "CALLS", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "COST")
    yield from render_table(rows, head)


def render_prices(answer: Any) -> Iterator[str]:
    if not answer.prices:
        yield "No prices."
        return
    rows = [
        (one.model, one.since, one.currency, *(_format_optional(getattr(one, kind)) for kind in KINDS))
        for one in answer.prices
    ]
    yield from render_table(rows, ("MODEL", "SINCE", "CURRENCY", *(kind.upper().replace("_", " ") for kind in KINDS)))


def render_budgets(answer: Any) -> Iterator[str]:
    if not answer.budgets:
        yield "No budgets."
        return
    rows = [
        (
            one.principal,
            one.model,
            one.period,
            _format_remaining(one.tokens_left, one.tokens),
            _format_remaining(one.cost_left, one.cost),
        )
        for one in answer.budgets
    ]
    yield from render_table(rows, ("PRINCIPAL", "MODEL", "PERIOD", "TOKENS LEFT", "MONEY LEFT"))


def _format_optional(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _format_remaining(left: Any, whole: Any) -> str:
    return f"{left} of {whole}" if isinstance(whole, str | int) else ""
