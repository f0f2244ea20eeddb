"""What it costs to bring two stores together: `python -m benchmarks.syncing [SIZE...]`.

The first exchange of a store is measured against an export and an import of the same store; one with nothing new is
measured in stores of several sizes. Seconds are those of the processor, which a busy machine changes least.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import NamedTuple

import msgspec

from benchmarks.report import Row, rate, times
from benchmarks.speed import fill, opened
from holdfast.app import Holdfast
from holdfast.features.sync.exchange import sync

SIZES = (10_000, 100_000)
AGAIN = 20
"""Exchanges with nothing new."""


class Took(NamedTuple):
    """Seconds of the processor, at one size."""

    carried: float
    """An export and an import."""
    first: float
    again: float


def seconds(work: Callable[[], object]) -> float:
    before = process_time()
    work()
    return process_time() - before


def measured(folder: Path, size: int) -> Took:
    fill(folder / "source.db", size, lambda: None)
    with opened(folder / "source.db") as source, opened(folder / "copy.db") as copy, opened(folder / "peer.db") as peer:
        carried = seconds(lambda: carry(source, copy))
        first = seconds(lambda: sync(peer.hold, source.hold, "pull"))
        again = sorted(seconds(lambda: sync(peer.hold, source.hold, "merge")) for _ in range(AGAIN))
    return Took(carried, first, again[AGAIN // 2])


def carry(source: Holdfast, target: Holdfast) -> None:
    target.call("import", {"envelope": msgspec.to_builtins(source.call("export", {}))})


def rows(found: dict[int, Took]) -> list[Row]:
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
    """Print the figures; 1 if a target is missed."""
    found = {}
    for size in map(int, arguments or map(str, SIZES)):
        with TemporaryDirectory() as folder:
            found[size] = measured(Path(folder), size)
    figures = rows(found)
    for row in figures:
        print(f"{row.what}: {row.ours:,.4g} {row.unit}, {row.ratio:.2f}x of {row.floor_is} ({row.target})")
    return int(any(row.met is False for row in figures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
