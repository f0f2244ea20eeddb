"""`holdfast admin bench quality`: measure how often recall finds the right memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.features.recall.quality.chart import render_svg
from holdfast.features.recall.quality.measure import (
    MAX_HITS,
    ask_all_questions,
    build_report,
    compute_hit_rates,
    count_steps,
)
from holdfast.features.recall.quality.question_files import BUNDLED_QUESTIONS, load_dataset
from holdfast.features.recall.quality.report import QualityReport
from holdfast.features.recall.quality.timing import ProgressMeter, ReportProgress
from holdfast.kernel.context import SILENT
from holdfast.kernel.errors import Invalid
from holdfast.surfaces.bench.clients import Surface, open_client
from holdfast.surfaces.bench.scratch_schemas import scratch_schemas


def measure_quality(
    file: Path = BUNDLED_QUESTIONS,
    set: str | None = None,
    surface: Surface = "library",
    progress: ReportProgress = SILENT,
    *,
    questions: int | None = None,
    limit: int = MAX_HITS,
    postgres: str | None = None,
    plot: Path | None = None,
) -> QualityReport:
    """Fill a temporary store with a file's memories, ask its questions, and score the answers.

    The store is a temporary file, or a temporary schema in the given database.
    """
    if plot and not plot.absolute().parent.is_dir():
        raise Invalid(f"--plot: the directory {plot.parent} does not exist; create it first.")
    asked = load_dataset(file, set).take_sample(questions)
    with temporary_store(postgres) as db, open_client(surface, db) as client:
        replies = ask_all_questions(client, asked, limit, ProgressMeter(count_steps(asked), progress))
    if plot:
        plot.write_text(render_svg(f"{file.name}, {asked.set}", compute_hit_rates(replies)), "utf-8")
    return build_report(file, asked, surface, "PostgreSQL" if postgres else "SQLite", replies)


@contextmanager
def temporary_store(postgres: str | None) -> Iterator[str]:
    """Return the address of a new temporary store; it is deleted afterwards."""
    if postgres is None:
        with TemporaryDirectory(prefix="holdfast-quality-") as place:
            yield str(Path(place) / "store.db")
    else:
        with scratch_schemas(postgres) as schemas:
            yield schemas.store("ours")
