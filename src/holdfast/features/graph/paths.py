"""Ways through a graph: simple paths, shortest first, without walking every path there is."""

from collections.abc import Collection, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

Path = tuple[str, ...]
MOST_WORK = 2_000_000
"""Edges looked at before a search stops: about a second."""


class Found(NamedTuple):
    paths: list[Path]
    complete: bool
    """False if the search stopped for the work it took: there may be more, but none shorter than those found."""


def simple_paths(
    near: Mapping[str, Sequence[str]], source: str, target: str, *, depth: int, most: int, work: int = MOST_WORK
) -> Found:
    """The paths of at most `depth` steps that pass no node twice, by length and then by their ids; `most` of them.

    `near` gives the neighbours of each node in order. Each path found splits those not yet found into disjoint sets:
    the paths that leave it at one of its nodes. Only the best of each set is looked for, so that the work grows with
    the number of paths asked for, not with the number there are.
    """
    if source == target:
        return Found([(source,)], True)
    found: list[Path] = []
    waiting: list[tuple[int, Path, int, frozenset[str]]] = []
    sets: list[tuple[Path, frozenset[str]]] = [((source,), frozenset())]
    while len(found) < most:
        for start, without in sets:
            best, cost = _shortest(near, start, without, target, depth, work)
            work -= cost
            if best is not None:
                heappush(waiting, (len(best), best, len(start), without))
        if work <= 0 or not waiting:
            break
        _, path, fixed, without = heappop(waiting)
        found.append(path)
        sets = [
            (path[:cut], frozenset({path[cut]}) | (without if cut == fixed else frozenset()))
            for cut in range(fixed, len(path))
        ]
    return Found(found, work > 0)


def _shortest(
    near: Mapping[str, Sequence[str]], start: Path, without: Collection[str], target: str, depth: int, work: int
) -> tuple[Path | None, int]:
    """The first path that goes on from `start`, not to `without` at once; and how many edges were looked at.

    Breadth-first with neighbours in order, so that of the shortest paths the first in order is met first.
    """
    came_from: dict[str, str] = dict.fromkeys(start, "")
    level, cost = [start[-1]], 0
    for _ in range(depth - len(start) + 1):
        following: list[str] = []
        for node in level:
            nexts = near.get(node, ())
            cost += len(nexts)
            if cost > work:
                return None, cost
            for other in nexts:
                if other in came_from or (node == start[-1] and other in without):
                    continue
                came_from[other] = node
                if other == target:
                    return (*start, *_back(came_from, target, start[-1])), cost
                following.append(other)
        level = following
    return None, cost


def _back(came_from: Mapping[str, str], node: str, start: str) -> Path:
    steps = []
    while node != start:
        steps.append(node)
        node = came_from[node]
    return tuple(reversed(steps))
