"""Terminal output of the run operations."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import render_table, shorten, style


def render_run(answer: Any) -> Iterator[str]:
    """Print a run and the state of each of its phases."""
    run = answer.run
    yield style(f"{run.id}  {run.topology}  {run.state}", bold=True)
    if isinstance(answer.token, int):
        yield f"  token {answer.token}, leased until {run.lease_until}"
    if isinstance(run.error, str):
        yield f"  {shorten(run.error, 200)}"
    rows = [
        (phase.name, phase.state.replace("_", " "), str(phase.attempt), shorten(_get_output(phase), 60))
        for phase in answer.phases
    ]
    yield from render_table(rows, ("PHASE", "STATE", "ATTEMPTS", "OUTPUT"))


def _get_output(phase: Any) -> str:
    return next((text for text in (phase.error, phase.output) if isinstance(text, str)), "")


def render_runs(answer: Any) -> Iterator[str]:
    if not answer.runs:
        yield "No runs."
        return
    rows = [(run.id, run.topology, run.state, run.updated_at[:19] + "Z") for run in answer.runs]
    yield from render_table(rows, ("ID", "PLAN", "STATE", "UPDATED"))
