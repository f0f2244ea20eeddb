"""A curator's answers for a person."""

from collections.abc import Iterator
from typing import Any

import click

from .human import one_line, safe, table


def curated(answer: Any) -> Iterator[str]:
    """What was done or would be, and what every step came to."""
    for one in answer.done:
        yield f"{one.outcome:>8}  {one_line(one.what, 160)}"
    rows = [
        (step, str(told.looked_at), str(told.changed), str(told.proposed), one_line(_skipped(told.skipped), 60))
        for step, told in answer.steps.items()
    ]
    yield from table(rows, ("STEP", "LOOKED AT", "CHANGED", "PROPOSED", "SKIPPED"))
    ended = "" if answer.ended == "all was looked at" else f" It ended by {answer.ended}: the next run goes on."
    if answer.dry_run:
        yield click.style(f"Nothing was changed: repeat it with --apply to do this.{ended}", fg="yellow")
    else:
        yield click.style(f"Run {answer.run_id}: take it back with curate rollback.{ended}", fg="green")


def _skipped(reasons: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in reasons.items())


def proposals(answer: Any) -> Iterator[str]:
    """Each proposal with what decides it."""
    if not answer.proposals:
        yield "Nothing is proposed."
    for one in answer.proposals:
        yield click.style(f"{one.id}  {one.kind}", bold=True)
        yield f"  {one.memory_id}" + (f" and {one.other_id}" if isinstance(one.other_id, str) else "")
        if tags := one.details.get("tags"):
            yield "  " + safe(", ".join(tags))
        for against in one.details.get("evidence") or ():
            yield f"  {one_line(against['a'])}"
            yield f"  {one_line(against['b'])}"
