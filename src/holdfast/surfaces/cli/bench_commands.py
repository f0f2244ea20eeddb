"""`holdfast admin bench`: measure this machine, recall quality and the prompt hook."""

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

import holdfast
from holdfast.features.recall.quality.question_files import BUNDLED_QUESTIONS
from holdfast.kernel.errors import NotFound
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.bench.hook_firing import measure_firing
from holdfast.surfaces.bench.quality import measure_quality
from holdfast.surfaces.cli.global_options import global_options, resolve_global_options
from holdfast.surfaces.cli.help.documented_command import DocumentedCommand
from holdfast.surfaces.cli.output import progress_of

CHECKOUT = Path(holdfast.__file__).parents[2]
"""The checkout if Holdfast runs from source; the benchmarks are beside src/."""
MODULE = "measure_machine"


@click.command(
    cls=DocumentedCommand,
    examples=("holdfast admin bench --quick", "holdfast admin bench --out report"),
    params=global_options(),
)
@click.option("--quick", is_flag=True, help="Small sizes only, as a smoke test.")
@click.option("--full", is_flag=True, help="Include a million memories.")
@click.option("--postgres", metavar="URL", help="PostgreSQL database to measure, in temporary schemas.")
@click.option("--out", default="bench-report", metavar="DIR", help="Report directory [default: bench-report].")
def bench(quick: bool, full: bool, postgres: str | None, out: str, **given: Any) -> None:
    """Measure this machine: speed relative to a floor, with a table and plots.

    Requires a clone of the Holdfast repository; the subcommands do not.
    """
    wanted = resolve_global_options(given)
    measure_machine = load_measure_machine()
    with progress_of("bench", wanted) as progress:
        report = measure_machine(Path(out), quick=quick, full=full, postgres=postgres, progress=progress)
    click.echo(wire.encode(report) if wanted["json"] else report.text())


@click.command(
    cls=DocumentedCommand,
    examples=("holdfast admin bench quality", "holdfast admin bench quality --limit-questions 10"),
    advanced={"plot", "postgres", "surface"},
    params=global_options(),
)
@click.argument("file", required=False)
@click.option(
    "--set",
    "cut",
    metavar="NAME",
    help="Question set: turns or docs (LoCoMo); sessions, pool or pool-turn (LongMemEval).",
)
@click.option("--surface", type=click.Choice(["library", "http", "cli"]), default="library", help="Surface to measure.")
@click.option("--limit-questions", type=click.IntRange(1), metavar="N", help="Ask a sample of this many questions.")
@click.option("--limit", type=click.IntRange(10, 50), default=50, metavar="N", help="Hits per question [default: 50].")
@click.option("--postgres", metavar="URL", help="Use this PostgreSQL database, in a temporary schema.")
@click.option("--plot", metavar="FILE", help="Write a plot to this SVG file.")
def quality(file: str | None, cut: str | None, limit_questions: int | None, plot: str | None, **given: Any) -> None:
    """Measure recall quality on the questions of a LoCoMo or LongMemEval file.

    Without a file, use the bundled questions.
    """
    wanted = resolve_global_options(given)
    asked = {name: given[name] for name in ("surface", "limit", "postgres")}
    with progress_of("quality", wanted) as progress:
        found = measure_quality(
            Path(file) if file else BUNDLED_QUESTIONS,
            cut,
            progress=progress,
            questions=limit_questions,
            plot=Path(plot) if plot else None,
            **asked,
        )
    click.echo(wire.encode(found) if wanted["json"] else found.to_text())


@click.command(
    cls=DocumentedCommand,
    examples=("holdfast admin bench firing", "holdfast admin bench firing --json"),
    params=global_options(),
)
def firing(**given: Any) -> None:
    """Measure how often the prompt hook adds context where it should, and where it should not.

    Uses the bundled held-out prompts, which were not used to tune its threshold.
    """
    found = measure_firing()
    click.echo(wire.encode(found) if resolve_global_options(given)["json"] else found.text())


def load_measure_machine() -> Callable[..., Any]:
    """Import the benchmarks from the checkout that runs, else from sys.path. Raises NotFound with how to get them."""
    if (CHECKOUT / "benchmarks" / f"{MODULE}.py").is_file():
        sys.path.insert(0, str(CHECKOUT))
    elif not _is_importable():
        raise NotFound(
            "`holdfast admin bench` requires the benchmarks, which the installed package does not contain: "
            "clone the Holdfast repository and run `make bench` there. "
            "`holdfast admin bench quality` and `holdfast admin bench firing` work without them."
        )
    measure: Callable[..., Any] = import_module(f"benchmarks.{MODULE}").measure_machine
    return measure


def _is_importable() -> bool:
    """Check without importing: another project may have a package of this name."""
    spec = find_spec("benchmarks")
    folders = spec.submodule_search_locations if spec else None
    return any((Path(folder) / f"{MODULE}.py").is_file() for folder in folders or ())
