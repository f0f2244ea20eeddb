"""Percentiles of durations, and progress of a measurement."""

from collections.abc import Callable, Sequence
from math import ceil
from typing import NamedTuple

ReportProgress = Callable[[int, int, str], None]


class Spread(NamedTuple):
    """Percentiles of repeated durations, in seconds."""

    best: float
    p50: float
    p95: float
    p99: float


def measure_spread(seconds: Sequence[float]) -> Spread:
    ordered = sorted(seconds)

    def percentile(share: float) -> float:
        return ordered[ceil(len(ordered) * share) - 1]

    return Spread(best=ordered[0], p50=percentile(0.50), p95=percentile(0.95), p99=percentile(0.99))


class ProgressMeter:
    """Progress of a whole run."""

    def __init__(self, total: int, progress: ReportProgress) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def start_phase(self, what: str) -> Callable[[], None]:
        """Start a phase; return a function to call after each of its steps."""

        def advance() -> None:
            self._done += 1
            self._progress(self._done, self._total, what)

        self._progress(self._done, self._total, what)
        return advance
