"""Terminal output of people, facts and interactions that columns alone do not give."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, render_columns, render_table, shorten


def render_principal_stats(answer: Any) -> Iterator[str]:
    numbers = {name: getattr(answer, name) for name in ("conversations", "messages", "observations", "facts")}
    yield f"{escape(answer.principal)}: " + ", ".join(f"{number:,} {name}" for name, number in numbers.items())


def render_fact_history(answer: Any) -> Iterator[str]:
    rows = [
        (one.at[:19] + "Z", shorten(one.agent_id, 40), "(deleted)" if one.value is None else shorten(one.value, 80))
        for one in answer.past
    ]
    yield from render_table(rows, ("SINCE", "BY", "VALUE"))


def render_interactions(answer: Any) -> Iterator[str]:
    """Print one row for each interaction, then the totals by status."""
    yield from render_columns(answer, ("at", "status", "principal", "channel", "action", "reason", "input"))
    if answer.interactions:
        yield ", ".join(f"{count:,} {status}" for status, count in answer.totals.items())
