"""Find the shortest simple paths of a graph without enumerating all paths."""

from collections.abc import Collection, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

Path = tuple[str, ...]
MAX_WORK = 2_000_000
"""Edges visited before a search stops: about one second."""


class PathSearch(NamedTuple):
    paths: list[Path]
    complete: bool
    """False if the search hit its work limit: there may be more paths, but none shorter than those found."""


def find_simple_paths(
    near: Mapping[str, Sequence[str]], source: str, target: str, *, depth: int, most: int, work: int = MAX_WORK
) -> PathSearch:
    """Find up to `most` simple paths of at most `depth` steps, ordered by length, then by ids.

    `near` maps each node to its ordered neighbours. Each path found splits the remaining ones into disjoint sets: the
    paths that leave it at one of its nodes (Yen's algorithm). Only the best path of each set is searched, so the work
    grows with the number of paths requested, not with the number that exist.
    """
    if source == target:
        return PathSearch([(source,)], True)
    found: list[Path] = []
    waiting: list[tuple[int, Path, int, frozenset[str]]] = []
    sets: list[tuple[Path, frozenset[str]]] = [((source,), frozenset())]
    while len(found) < most:
        for start, without in sets:
            best, cost = _find_shortest(near, start, without, target, depth, work)
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
    return PathSearch(found, work > 0)


def _find_shortest(
    near: Mapping[str, Sequence[str]], start: Path, without: Collection[str], target: str, depth: int, work: int
) -> tuple[Path | None, int]:
    """Find the first path that extends `start` without going to a node of `without` next; also return edges visited.

    Breadth-first with ordered neighbours: among the shortest paths, the first in order is found first.
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
                    return (*start, *_trace_back(came_from, target, start[-1])), cost
                following.append(other)
        level = following
    return None, cost


def _trace_back(came_from: Mapping[str, str], node: str, start: str) -> Path:
    steps = []
    while node != start:
        steps.append(node)
        node = came_from[node]
    return tuple(reversed(steps))
