"""`holdfast bench quality`: how often the right memory is found, asked through the product itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.features.recall.quality.chart import svg
from holdfast.features.recall.quality.measure import DEEPEST, ask_all, lines, report_on, steps
from holdfast.features.recall.quality.question_files import OWN, cut
from holdfast.features.recall.quality.report import QualityReport
from holdfast.features.recall.quality.timing import Meter, ReportProgress
from holdfast.kernel.context import SILENT
from holdfast.kernel.errors import Invalid
from holdfast.surfaces.bench.clients import Surface, open_client
from holdfast.surfaces.bench.scratch_schemas import scratch_schemas


def measure_quality(
    file: Path = OWN,
    set: str | None = None,
    surface: Surface = "library",
    progress: ReportProgress = SILENT,
    *,
    questions: int | None = None,
    limit: int = DEEPEST,
    postgres: str | None = None,
    plot: Path | None = None,
) -> QualityReport:
    """Fill a store of its own with a file's memories, ask its questions, and judge the answers.

    The store is gone afterwards: a temporary file, or a schema of its own in the database that is given.
    """
    if plot and not plot.absolute().parent.is_dir():
        raise Invalid(f"There is no directory {plot.parent} for the plot: make it first.")
    asked = cut(file, set).sample(questions)
    with temporary_store(postgres) as db, open_client(surface, db) as client:
        replies = ask_all(client, asked, limit, Meter(steps(asked), progress))
    if plot:
        plot.write_text(svg(f"{file.name}, {asked.set}", lines(replies)), "utf-8")
    return report_on(file, asked, surface, "PostgreSQL" if postgres else "SQLite", replies)


@contextmanager
def temporary_store(postgres: str | None) -> Iterator[str]:
    """The address of a store that does not exist yet; it is deleted afterwards."""
    if postgres is None:
        with TemporaryDirectory(prefix="holdfast-quality-") as place:
            yield str(Path(place) / "store.db")
    else:
        with scratch_schemas(postgres) as schemas:
            yield schemas.store("ours")
