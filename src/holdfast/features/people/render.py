"""Terminal output of principals and facts."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, render_table, shorten, style


def render_principal(answer: Any) -> Iterator[str]:
    yield style(escape(answer.principal), bold=True) + (f"  {shorten(answer.display)}" if answer.display else "")
    for name in answer.names[1:]:
        yield f"  also {escape(name)}"


def render_principal_stats(answer: Any) -> Iterator[str]:
    numbers = {name: getattr(answer, name) for name in ("conversations", "messages", "observations", "facts")}
    yield f"{escape(answer.principal)}: " + ", ".join(f"{number:,} {name}" for name, number in numbers.items())


def render_principals(answer: Any) -> Iterator[str]:
    if not answer.names:
        yield "No principals."
        return
    rows = [
        (shorten(one.name, 60), shorten(one.stands_for or "", 60), shorten(one.display, 60)) for one in answer.names
    ]
    yield from render_table(rows, ("NAME", "ALIAS OF", "DISPLAY NAME"))


def render_erasure(answer: Any) -> Iterator[str]:
    yield f"Erased at {answer.at} by {escape(answer.agent_id)}. Remaining digests: {', '.join(answer.ids)}."
    yield "  " + ", ".join(f"{number} {what.replace('_', ' ')}" for what, number in answer.counts.items() if number)


def render_fact_change(answer: Any) -> Iterator[str]:
    yield from render_fact(answer.fact)
    if isinstance(answer.contradicts, str):
        yield style(f"  before: {shorten(answer.contradicts, 200)}", fg="yellow")


def render_fact(fact: Any) -> Iterator[str]:
    yield f"{style(shorten(fact.key), bold=True)}: {shorten(fact.value, 400)}"


def render_facts(answer: Any) -> Iterator[str]:
    if not answer.facts:
        yield "No facts."
        return
    rows = [(shorten(fact.key, 40), shorten(fact.value, 80), f"{fact.confidence:g}") for fact in answer.facts]
    yield from render_table(rows, ("KEY", "VALUE", "CONFIDENCE"))


def render_facts_of_all(answer: Any) -> Iterator[str]:
    if not answer.facts:
        yield "No facts."
        return
    rows = [(shorten(one.principal, 40), shorten(one.key, 40), shorten(one.value, 80)) for one in answer.facts]
    yield from render_table(rows, ("PERSON", "KEY", "VALUE"))


def render_fact_history(answer: Any) -> Iterator[str]:
    rows = [
        (one.at[:19] + "Z", shorten(one.agent_id, 40), "(deleted)" if one.value is None else shorten(one.value, 80))
        for one in answer.past
    ]
    yield from render_table(rows, ("SINCE", "BY", "VALUE"))


def render_recorded_interaction(answer: Any) -> Iterator[str]:
    yield f"{'Recorded' if answer.recorded else 'Already recorded'}: {answer.id} ({answer.status})"


def render_interactions(answer: Any) -> Iterator[str]:
    """Print one row for each interaction, then the totals by status."""
    if not answer.interactions:
        yield "No interactions."
        return
    rows = [
        (
            one.at[:19],
            one.status,
            _format_optional(one.principal),
            _format_optional(one.channel),
            _format_optional(one.action),
            _format_subject(one),
        )
        for one in answer.interactions
    ]
    yield from render_table(rows, ("AT", "STATUS", "PERSON", "CHANNEL", "ACTION", "ABOUT"))
    yield ", ".join(f"{count:,} {status}" for status, count in answer.totals.items())


def render_interaction(answer: Any) -> Iterator[str]:
    for name in answer.__struct_fields__:
        value = getattr(answer, name)
        if isinstance(value, str | int):
            yield f"{name}: {shorten(str(value), 400)}"


def _format_subject(one: Any) -> str:
    return shorten(_format_optional(one.reason) or _format_optional(one.input), 60)


def _format_optional(value: Any) -> str:
    return shorten(value, 40) if isinstance(value, str) else ""
