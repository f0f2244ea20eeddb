"""`holdfast bench`: run all benchmarks and write the report."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import agent_hooks, growing, meaning, speed
from benchmarks.database import database
from benchmarks.growing import NOT_GROWN
from benchmarks.report import Curve, Report, Row, write
from benchmarks.speed import Rounds
from holdfast.features.recall.quality.report import Machine
from holdfast.features.recall.quality.timing import ProgressMeter, ReportProgress
from holdfast.kernel.context import SILENT

SIZES = (10_000, 100_000)
FULL = (*SIZES, 1_000_000)
QUICK = (1_000,)
GROWING = (1_000, 3_000, 10_000, 30_000, 100_000)
WITH_VECTORS = (10_000, 100_000)
"""Sizes at which the PostgreSQL store gets vectors. The larger index takes minutes, so only in a full run."""
QUICK_ROUNDS = Rounds(
    questions=20, stores=20, batches=1, each=5, starts=2, calls=20, grown=10, turns=1, reembedded=50, centres=100
)


def measure_machine(
    out: Path,
    sizes: Sequence[int] | None = None,
    progress: ReportProgress = SILENT,
    *,
    quick: bool = False,
    full: bool = False,
    postgres: str | None = None,
    rounds: Rounds | None = None,
) -> Report:
    """Measure this machine and write report.md, report.json and the plots to a directory.

    The measured stores are temporary and in that directory, so it decides the disk. So is a PostgreSQL server, unless
    a URL is given: there the stores are temporary schemas.
    """
    grown = sizes or (QUICK if quick else GROWING)
    near = grown[-1:] if sizes or quick else WITH_VECTORS if full else WITH_VECTORS[:1]
    sizes = sizes or (QUICK if quick else FULL if full else SIZES)
    rounds = rounds or (QUICK_ROUNDS if quick else Rounds())
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out, prefix="stores-") as place, database(postgres, Path(place) / "server") as server:
        meter = ProgressMeter(rounds.steps(sizes) + (growing.steps(grown, near, rounds) if server else 0), progress)
        rows, curves = measure_file_store(Path(place), sizes, rounds, meter)
        grow = growing.Grow(grown, near, rounds, meter)
        both = growing.growing(make_folder(Path(place) / "growing"), server, grow) if server else NOT_GROWN
    rows += both.rows
    met = all(row.met is not False for row in rows)
    report = Report(machine=Machine(), rows=rows, recall=curves, met=met, database=both.about, growth=both.growth)
    write(report, out)
    return report


def measure_file_store(
    place: Path, sizes: Sequence[int], rounds: Rounds, meter: ProgressMeter
) -> tuple[list[Row], list[Curve]]:
    """Run every benchmark of a file store, each in its own directory."""
    rows = []
    for measure in (speed.storing, speed.storing_in_bulk, speed.storing_together):
        rows += measure(make_folder(place / measure.__name__), rounds, meter)
    rows += meaning.measure_storing(make_folder(place / "making"), rounds, meter)
    rows += meaning.measure_reembedding(make_folder(place / "reembedding"), rounds, meter)
    recall, curves = meaning.measure_recall(make_folder(place / "recalling"), sizes, rounds, meter)
    rows += recall
    rows += meaning.measure_cold_start(place / "recalling" / f"{sizes[0]}.db", sizes[0], rounds, meter)
    for measure in (speed.starting, speed.connecting, speed.calling):
        rows += measure(make_folder(place / measure.__name__), rounds, meter)
    rows += agent_hooks.measure_hooks(make_folder(place / "hooking"), rounds, meter)
    return rows, curves


def make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder
