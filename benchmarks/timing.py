"""Taking the time of things that are to be compared."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Any

from holdfast.features.recall.quality.timing import Spread, measure_spread

Doer = Callable[[Any], float]
"""Does something with an item and answers how many seconds it took."""


def timer(work: Callable[[Any], Any]) -> Doer:
    """A piece of work as a doer."""

    def time_item(item: Any) -> float:
        begun = perf_counter()
        work(item)
        return perf_counter() - begun

    return time_item


def in_turns(doers: Mapping[str, Doer], items: Iterable[Any], step: Callable[[], None]) -> dict[str, Spread]:
    """Every doer on every item, in another order each time, so that noise and warm caches favour none."""
    names, seconds = deque(doers), {name: list[float]() for name in doers}
    for number, item in enumerate(items):
        for name in tuple(names) if number % 2 else tuple(reversed(names)):
            seconds[name].append(doers[name](item))
        names.rotate(number % 2)
        step()
    return {name: measure_spread(found) for name, found in seconds.items()}
