"""Measure the web page on a small and a large store: `python -m benchmarks.page [SIZE...]`.

A real browser opens the page of each store in turn, each time as a new visitor. Measured are the first paint, the time
until memories are shown, a page in the middle of the list, and a search. The large store is compared with the small
one. Requires chromium and playwright.
"""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.browser import browser
from benchmarks.report import Row, times
from benchmarks.speed import fill
from holdfast.surfaces.bench.clients import serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SIZES = (100, 100_000)
VISITS = 9
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
GO = "hash => { location.hash = hash }"
Figures = dict[str, list[float]]


def visit(opened: "Browser", url: str, size: int, figures: Figures) -> None:
    """Visit the page with an empty cache and record the seconds of each step."""
    with opened.new_context() as visitor:
        page = visitor.new_page()
        begun = perf_counter()
        page.goto(url)
        page.locator(".memory").first.wait_for()
        figures["memories shown"].append(perf_counter() - begun)
        figures["first paint"].append(page.evaluate(PAINT) / 1000)
        figures["the middle of the list"].append(
            time_until_shown(page, f"#/memories?offset={size // 2}", ".view-memories .memory")
        )
        figures["a question"].append(time_until_shown(page, "#/search?q=what+was+decided+about+the+release", ".hits"))


def time_until_shown(page: "Page", address: str, what: str) -> float:
    """Return the seconds from opening an address until its content is shown."""
    begun = perf_counter()
    page.evaluate(GO, address)
    page.locator(what).first.wait_for()
    return perf_counter() - begun


def measure_pages(sizes: Sequence[int]) -> dict[int, Figures]:
    """Measure each size; the stores are visited in turns, so noise affects all of them."""
    names = ("first paint", "memories shown", "the middle of the list", "a question")
    found: dict[int, Figures] = {size: {name: [] for name in names} for size in sizes}
    with TemporaryDirectory() as folder, ExitStack() as stack:
        urls = {}
        for size in sizes:
            path = Path(folder) / f"{size}.db"
            fill(path, size, lambda: None)
            urls[size] = stack.enter_context(serve(str(path), HOLDFAST_EMBEDDER="none")).url
        opened = stack.enter_context(browser())
        for size in sizes:
            visit(opened, urls[size], size, {name: [] for name in names})
        for _ in range(VISITS):
            for size in sizes:
                visit(opened, urls[size], size, found[size])
    return found


def rows(found: dict[int, Figures]) -> list[Row]:
    least, *more = found
    return [
        times(
            f"{name} with {size:,} memories",
            f"the same with {least:,}",
            median(found[least][name]),
            median(found[size][name]),
            at_most=2 if name in ("first paint", "memories shown") else None,
        )
        for size in more
        for name in found[size]
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the figures; return 1 if a target is missed."""
    figures = rows(measure_pages([int(size) for size in arguments] or SIZES))
    for row in figures:
        print(
            f"{row.what}: {row.ours:,.4g} {row.unit}, {row.ratio:.2f}x of {row.floor_is} ({row.target or 'no target'})"
        )
    return int(any(row.met is False for row in figures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
