"""Time work to compare, in turns."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Any

from holdfast.features.recall.quality.timing import Spread, measure_spread

Doer = Callable[[Any], float]
"""Runs work on an item and returns its seconds."""


def timer(work: Callable[[Any], Any]) -> Doer:
    """Wrap work to return its seconds."""

    def time_item(item: Any) -> float:
        begun = perf_counter()
        work(item)
        return perf_counter() - begun

    return time_item


def in_turns(doers: Mapping[str, Doer], items: Iterable[Any], step: Callable[[], None]) -> dict[str, Spread]:
    """Run every doer on every item in varying order, so noise and warm caches favour none."""
    names, seconds = deque(doers), {name: list[float]() for name in doers}
    for number, item in enumerate(items):
        for name in tuple(names) if number % 2 else tuple(reversed(names)):
            seconds[name].append(doers[name](item))
        names.rotate(number % 2)
        step()
    return {name: measure_spread(found) for name, found in seconds.items()}
