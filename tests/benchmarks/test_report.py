"""A minimal benchmark run contains every figure, whatever the results on this machine."""

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from benchmarks.measure_machine import measure_machine
from benchmarks.report import Report, Row, rate, times, times_better
from benchmarks.speed import Rounds
from engines import Postgres
from holdfast.features.recall.quality.report import Machine
from holdfast.kernel.errors import StoreUnreachable

SMALLEST = Rounds(
    questions=3, stores=2, batches=1, each=1, starts=1, calls=2, grown=2, turns=1, reembedded=3, centres=5
)
SIZES = (100, 200)
WITH_VECTORS_AMONG_100 = [
    f"recall among 100 with vectors, {percentile}" for percentile in ("p50", "p95", "p50", "p50", "p95")
]


Reported = tuple[Report, Path, list[tuple[int, int, str]]]


@pytest.fixture(scope="module")
def bench_run(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Reported:
    out, seen = tmp_path_factory.mktemp("bench") / "report", list[tuple[int, int, str]]()
    url = postgres.url(postgres.database)
    report = measure_machine(
        out, SIZES, lambda done, total, what: seen.append((done, total, what)), rounds=SMALLEST, postgres=url
    )
    return report, out, seen


@pytest.mark.full
def test_a_run_reports_every_figure(bench_run: Reported) -> None:
    assert [row.what for row in bench_run[0].rows] == [
        "store, one at a time",
        "store, one at a time, p95",
        "stores in one transaction",
        "store, 8 processes on one file, p99",
        "stores of 8 processes together",
        "stores while vectors are made",
        "stores in one transaction while vectors are made",
        "stores over HTTP while vectors are made",
        "vectors by `reembed` of 3 memories",
        "recall among 100, p50",
        "recall among 100, p95",
        *WITH_VECTORS_AMONG_100,
        "recall among 200, p50",
        "recall among 200, p95",
        *(what.replace("100", "200") for what in WITH_VECTORS_AMONG_100),
        "recall among 200, p95",
        "recall among 200 with vectors, p95",
        "`holdfast recall` among 100 with vectors, cold",
        "`holdfast recall` by words, cold, best",
        "MCP over stdio, cold to `initialize`, best",
        "MCP calls over stdio (memory_get)",
        "`holdfast hook prompt`, p95",
        "`holdfast hook prompt`, median",
        "`holdfast hook tool`, median",
        "`holdfast hook session-end`, median",
        "`holdfast boot`, median",
        "recall on PostgreSQL among 100, p50",
        "recall on PostgreSQL among 100, p95",
        "recall on PostgreSQL among 200, p50",
        "recall on PostgreSQL among 200, p95",
        "recall on PostgreSQL among 200 with vectors, p50",
        "recall on PostgreSQL among 200 with vectors, p95",
        "store on PostgreSQL among 200, p50",
        "store on PostgreSQL among 200, p95",
        "store on PostgreSQL among 200, p50",
    ]
    assert all(row.floor > 0 and row.ours > 0 and row.ratio > 0 for row in bench_run[0].rows)


@pytest.mark.full
def test_the_written_report_names_what_was_measured(bench_run: Reported) -> None:
    report, out, _ = bench_run
    plots = ["growth-recall.svg", "growth-store.svg", "recall.svg"]
    assert sorted(file.name for file in out.iterdir()) == [*plots, "report.json", "report.md"]
    assert msgspec.json.decode((out / "report.json").read_bytes(), type=Report) == report
    table = (out / "report.md").read_text()
    assert table == report.text()
    assert all(f"| {row.what} | {row.floor_is} |" in table for row in report.rows)
    assert all(f"| {one.size} | {one.engine} |" in table for one in report.growth)


@pytest.mark.full
def test_the_plot_has_a_line_for_each_percentile_of_holdfast_and_of_the_baseline(bench_run: Reported) -> None:
    drawing = ElementTree.fromstring((bench_run[1] / "recall.svg").read_text())
    names = {element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")}
    lines = {f"{name} {share}" for name in ("with vectors", "Holdfast", "bare FTS5") for share in ("p50", "p95")}
    assert {*lines, "memories", "100", "1,000"} <= names
    points = [line.attrib["points"].split() for line in drawing.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(line) for line in points] == [len(SIZES)] * 6


@pytest.mark.full
@pytest.mark.parametrize("what", ["store", "recall"])
def test_the_growth_plot_has_a_line_for_each_percentile_of_each_engine(bench_run: Reported, what: str) -> None:
    drawing = ElementTree.fromstring((bench_run[1] / f"growth-{what}.svg").read_text())
    names = {element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert {"SQLite p50", "SQLite p95", "PostgreSQL p50", "PostgreSQL p95"} <= names
    points = [line.attrib["points"].split() for line in drawing.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(line) for line in points] == [len(SIZES)] * 4


@pytest.mark.full
def test_growth_is_reported_for_both_engines_and_for_bare_postgresql(bench_run: Reported, postgres: Postgres) -> None:
    found = [(one.size, one.engine) for one in bench_run[0].growth]
    assert found == [(size, engine) for size in SIZES for engine in ("SQLite", "PostgreSQL", "bare PostgreSQL")]
    assert "fsync off" in bench_run[0].database  # as configured on this server


@pytest.mark.full
def test_a_run_leaves_nothing_in_the_database(bench_run: Reported, postgres: Postgres) -> None:
    with postgres.admin(postgres.database) as connection:
        assert connection.execute("select nspname from pg_namespace where nspname like 'bench%'").fetchall() == []


def test_an_unmeasurable_database_is_reported_before_measuring(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable):
        measure_machine(tmp_path, SIZES, rounds=SMALLEST, postgres="postgresql://nobody@127.0.0.1:1/none")


def test_a_report_without_a_database_explains_how_to_add_one() -> None:
    report = Report(machine=Machine(), rows=[], recall=[], met=True)
    assert "PostgreSQL was not measured" in report.text()
    assert "## Two engines" not in report.text()


@pytest.mark.full
def test_progress_reaches_the_end(bench_run: Reported) -> None:
    seen = bench_run[2]
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert {total for _, total, _ in seen} == {seen[-1][0]}


def test_a_target_is_met_or_missed_by_the_ratio_alone() -> None:
    assert times("store", "insert", 0.25, 0.5, at_most=3) == Row(
        what="store", floor_is="insert", unit="ms", floor=250, ours=500, ratio=2, target="at most 3x", met=True
    )
    assert times("store", "insert", 0.25, 1.0, at_most=3).met is False
    assert times("store", "insert", 0.25, 1.0).met is None
    assert times_better("start", "SDK", 2.0, 0.5, at_least=5) == Row(
        what="start", floor_is="SDK", unit="ms", floor=2000, ours=500, ratio=4, target="at least 5x better", met=False
    )
    assert times("recall", "query", 0.02, 0.01, at_most=1, most_ms=60).met is True
    assert times("recall", "query", 0.02, 0.03, at_most=1, most_ms=60).met is False
    slow = times("recall", "query", 0.2, 0.1, at_most=1, most_ms=60)
    assert (slow.target, slow.met) == ("at most 1x and 60 ms", False)
    assert rate("stores", "inserts", 100, 50) == Row(
        what="stores", floor_is="inserts", unit="/s", floor=100, ours=50, ratio=0.5
    )
    assert rate("stores", "inserts", 100, 80, at_least=0.8).met is True
    assert rate("stores", "inserts", 100, 79, at_least=0.8).met is False
