"""Long work for a person."""

from collections.abc import Iterator
from typing import Any

import click

from .human import one_line, table


def whole(answer: Any) -> Iterator[str]:
    """A run, and where each of its phases stands."""
    run = answer.run
    yield click.style(f"{run.id}  {run.topology}  {run.state}", bold=True)
    if isinstance(answer.token, int):
        yield f"  token {answer.token}, held until {run.lease_until}"
    if isinstance(run.error, str):
        yield f"  {one_line(run.error, 200)}"
    rows = [
        (phase.name, phase.state.replace("_", " "), str(phase.attempt), one_line(_said(phase), 60))
        for phase in answer.phases
    ]
    yield from table(rows, ("PHASE", "STATE", "TRIES", "OUTPUT"))


def _said(phase: Any) -> str:
    return next((said for said in (phase.error, phase.output) if isinstance(said, str)), "")


def listed(answer: Any) -> Iterator[str]:
    if not answer.runs:
        yield "There are none."
        return
    rows = [(run.id, run.topology, run.state, run.updated_at[:19] + "Z") for run in answer.runs]
    yield from table(rows, ("ID", "PLAN", "STATE", "UPDATED"))
