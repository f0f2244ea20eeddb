"""Facts for a person."""

from collections.abc import Iterator
from typing import Any

import click

from .human import one_line, table


def told(answer: Any) -> Iterator[str]:
    yield from one(answer.fact)
    if isinstance(answer.contradicts, str):
        yield click.style(f"  before: {one_line(answer.contradicts, 200)}", fg="yellow")


def one(fact: Any) -> Iterator[str]:
    yield f"{click.style(one_line(fact.key), bold=True)}: {one_line(fact.value, 400)}"


def listed(answer: Any) -> Iterator[str]:
    if not answer.facts:
        yield "Nothing is known."
        return
    rows = [(one_line(fact.key, 40), one_line(fact.value, 80), f"{fact.confidence:g}") for fact in answer.facts]
    yield from table(rows, ("KEY", "VALUE", "CONFIDENCE"))


def of_everybody(answer: Any) -> Iterator[str]:
    if not answer.facts:
        yield "Nothing is known."
        return
    rows = [(one_line(one.principal, 40), one_line(one.key, 40), one_line(one.value, 80)) for one in answer.facts]
    yield from table(rows, ("OF", "KEY", "VALUE"))


def past(answer: Any) -> Iterator[str]:
    rows = [
        (one.at[:19] + "Z", one_line(one.agent_id, 40), "(deleted)" if one.value is None else one_line(one.value, 80))
        for one in answer.past
    ]
    yield from table(rows, ("SINCE", "BY", "VALUE"))
