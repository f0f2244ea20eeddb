"""Report of a recall measurement, as JSON and as a table."""

import os
import platform
import sys

import apsw
from msgspec import Struct

from holdfast.features.recall.quality.measures import Figures, Measures
from holdfast.version import __version__

SURFACE_NAMES = {"library": "the library", "http": "HTTP", "cli": "the command line"}


class Machine(Struct, frozen=True, kw_only=True):
    """The machine of a measurement: times are only comparable on the same one."""

    holdfast: str = __version__
    python: str = platform.python_version()
    sqlite: str = apsw.sqlite_lib_version()
    system: str = f"{platform.system()} {platform.machine()}"
    processors: int = os.cpu_count() or 1
    implementation: str = sys.implementation.name


class LatencyMs(Struct, frozen=True):
    """Latency in milliseconds."""

    p50: float
    p95: float


class Answer(Struct, frozen=True, kw_only=True):
    """The outcome of one question."""

    namespace: str
    question: str
    category: str
    first_right: int | None
    """Rank of the first right memory, if any was found."""


class QualityReport(Struct, frozen=True, kw_only=True):
    file: str
    format: str
    set: str
    surface: str
    engine: str
    memories: int
    modes: dict[str, int]
    """Number of answers per mode: keyword or hybrid."""
    unasked: int
    """Questions of the file that have no answer or are traps."""
    overall: Figures
    categories: dict[str, Figures]
    plain_text: Figures
    """Measures of plain FTS5: porter stems, stop words, bm25."""
    latency: LatencyMs
    machine: Machine
    answers: list[Answer]

    def to_text(self) -> str:
        """Format the figures as Markdown."""
        modes = ", ".join(f"{count} {mode}" for mode, count in self.modes.items())
        return "\n".join(
            [
                f"# Recall quality: {self.file}, {self.set}",
                "",
                f"{self.memories:,} memories on {self.engine}, {self.overall.questions:,} questions through "
                f"{SURFACE_NAMES[self.surface]}: {modes}. A recall takes {format_figure(self.latency.p50)} ms (p50), "
                f"{format_figure(self.latency.p95)} ms (p95).{_format_unasked(self.unasked)}",
                "",
                "| questions | number | any@1 | any@5 | any@10 | avg@5 | NDCG@10 | session any@10 |",
                "|---|--:|--:|--:|--:|--:|--:|--:|",
                _format_row("all", self.overall),
                *(_format_row(name, figures) for name, figures in self.categories.items()),
                _format_row("all, by plain FTS5", self.plain_text),
            ]
        )


def format_figure(value: float) -> str:
    """Format a number with three significant digits, or as a whole number from 100."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _format_unasked(number: int) -> str:
    return f" {number:,} more were not asked: they have no answer." if number else ""


def _format_row(name: str, found: Figures) -> str:
    values = [getattr(found, field) for field in Measures.__struct_fields__]
    cells = ["" if value is None else f"{100 * value:.1f}" for value in values]
    return f"| {name} | {found.questions} | {' | '.join(cells)} |"
