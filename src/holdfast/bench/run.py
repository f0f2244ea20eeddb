"""`holdfast bench`: measure everything, write the report."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from . import speed
from .report import Machine, Report, write
from .speed import Rounds
from .timing import Meter, Progress

SIZES = (10_000, 100_000)
FULL = (*SIZES, 1_000_000)
QUICK = (1_000,)
QUICK_ROUNDS = Rounds(questions=20, stores=20, batches=1, each=5, starts=2, calls=20)


def silent(done: int, total: int, what: str) -> None:
    """Nobody looks."""


def run(
    out: Path,
    sizes: Sequence[int] | None = None,
    progress: Progress = silent,
    *,
    quick: bool = False,
    full: bool = False,
    rounds: Rounds | None = None,
) -> Report:
    """Measure this machine and put report.md, report.json and recall.svg into a directory.

    The stores that are measured lie in that directory too, so that it decides the disk, and are gone afterwards.
    """
    sizes = sizes or (QUICK if quick else FULL if full else SIZES)
    rounds = rounds or (QUICK_ROUNDS if quick else Rounds())
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out, prefix="stores-") as place:
        report = measured(Path(place), sizes, rounds, Meter(rounds.steps(sizes), progress))
    write(report, out)
    return report


def measured(place: Path, sizes: Sequence[int], rounds: Rounds, meter: Meter) -> Report:
    """Every figure, each in a directory of its own."""
    rows = []
    for measure in (speed.storing, speed.storing_in_bulk, speed.storing_together):
        rows += measure(made(place / measure.__name__), rounds, meter)
    recall, curves = speed.recalling(made(place / "recalling"), sizes, rounds, meter)
    rows += recall
    for measure in (speed.starting, speed.connecting, speed.calling):
        rows += measure(made(place / measure.__name__), rounds, meter)
    return Report(machine=Machine(), rows=rows, recall=curves, met=all(row.met is not False for row in rows))


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def main(out: Path, quick: bool, report: Progress = silent) -> Report:
    """The whole of `holdfast bench`, quick or as it is by default."""
    return run(out, progress=report, quick=quick)
