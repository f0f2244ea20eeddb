"""Taking the time of things that are to be compared."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from time import perf_counter
from typing import Any, NamedTuple

Doer = Callable[[Any], float]
"""Does something with an item and answers how many seconds it took."""
Progress = Callable[[int, int, str], None]


class Spread(NamedTuple):
    """Seconds that one thing took, over its repetitions."""

    best: float
    p50: float
    p95: float
    p99: float


def spread(seconds: Sequence[float]) -> Spread:
    ordered = sorted(seconds)

    def at(share: float) -> float:
        return ordered[ceil(len(ordered) * share) - 1]

    return Spread(best=ordered[0], p50=at(0.50), p95=at(0.95), p99=at(0.99))


def took(work: Callable[[Any], Any]) -> Doer:
    """A piece of work as a doer."""

    def timed(item: Any) -> float:
        begun = perf_counter()
        work(item)
        return perf_counter() - begun

    return timed


def in_turns(doers: Mapping[str, Doer], items: Iterable[Any], step: Callable[[], None]) -> dict[str, Spread]:
    """Every doer on every item, in another order each time, so that noise and warm caches favour none."""
    names, seconds = deque(doers), {name: list[float]() for name in doers}
    for number, item in enumerate(items):
        for name in tuple(names) if number % 2 else tuple(reversed(names)):
            seconds[name].append(doers[name](item))
        names.rotate(number % 2)
        step()
    return {name: spread(found) for name, found in seconds.items()}


class Meter:
    """How far the whole run is."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def stepping(self, what: str) -> Callable[[], None]:
        """A call for each step of one part."""

        def step() -> None:
            self._done += 1
            self._progress(self._done, self._total, what)

        self._progress(self._done, self._total, what)
        return step
