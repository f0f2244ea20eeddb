"""Measure the sync of two stores: `python -m benchmarks.syncing [SIZE...]`.

The first sync of a store is compared with an export and import of the same store; a sync without changes is compared
across store sizes. All times are CPU seconds, which vary least on a busy machine.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import NamedTuple

import msgspec

from benchmarks.report import Row, rate, times
from benchmarks.speed import fill, open_store
from holdfast.app import Holdfast
from holdfast.features.sync.exchange import sync_stores

SIZES = (10_000, 100_000)
REPEATS = 20
"""Number of syncs without changes."""


class SyncTimes(NamedTuple):
    """CPU seconds at one size."""

    carried: float
    """Export and import."""
    first: float
    again: float


def processor_seconds(work: Callable[[], object]) -> float:
    before = process_time()
    work()
    return process_time() - before


def measure_sync(folder: Path, size: int) -> SyncTimes:
    fill(folder / "source.db", size, lambda: None)
    with (
        open_store(folder / "source.db") as source,
        open_store(folder / "copy.db") as copy,
        open_store(folder / "peer.db") as peer,
    ):
        carried = processor_seconds(lambda: export_and_import(source, copy))
        first = processor_seconds(lambda: sync_stores(peer.ctx, source.ctx, "pull"))
        again = sorted(processor_seconds(lambda: sync_stores(peer.ctx, source.ctx, "merge")) for _ in range(REPEATS))
    return SyncTimes(carried, first, again[REPEATS // 2])


def export_and_import(source: Holdfast, target: Holdfast) -> None:
    target.call("import", {"envelope": msgspec.to_builtins(source.call("export", {}))})


def rows(found: dict[int, SyncTimes]) -> list[Row]:
    least, *_ = found
    made = [
        rate(f"first sync of {size:,}", "export and import", size / took.carried, size / took.first, at_least=0.5)
        for size, took in found.items()
    ]
    floor = found[least].again
    return made + [
        times(f"sync of {size:,} with nothing new", f"the same at {least:,}", floor, took.again, at_most=2, most_ms=50)
        for size, took in found.items()
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the figures; return 1 if a target is missed."""
    found = {}
    for size in map(int, arguments or map(str, SIZES)):
        with TemporaryDirectory() as folder:
            found[size] = measure_sync(Path(folder), size)
    figures = rows(found)
    for row in figures:
        print(f"{row.what}: {row.ours:,.4g} {row.unit}, {row.ratio:.2f}x of {row.floor_is} ({row.target})")
    return int(any(row.met is False for row in figures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
