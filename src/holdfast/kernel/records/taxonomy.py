"""The tree of namespaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from holdfast.kernel.context import is_under


class Branch(Struct, frozen=True):
    """A namespace with its number of memories, own and including descendants."""

    namespace: str
    name: str
    count: int
    subtree_count: int
    children: list[Branch]


class Taxonomy(NamedTuple):
    tree: Branch
    truncated: bool


def build_taxonomy(counts: Iterable[tuple[str, int]], prefix: str = "", *, depth: int, limit: int) -> Taxonomy:
    """Build the tree of namespaces below a prefix: `depth` levels, at most `limit`, largest first.

    Namespaces that are left out still count in their ancestors.
    """
    own = Counter({namespace: n for namespace, n in counts if not prefix or is_under(namespace, prefix)})
    whole: Counter[str] = Counter()
    for namespace, n in own.items():
        for above in _ancestors(namespace, prefix):
            whole[above] += n
    shown = [path for path in whole if path != prefix and _level(path, prefix) <= depth]
    shown.sort(key=lambda path: (-whole[path], path))
    below: dict[str, list[str]] = {}
    for path in shown[:limit]:
        below.setdefault(_parent(path, prefix), []).append(path)
    return Taxonomy(_build_branch(prefix, own, whole, below), len(shown) > limit)


def _build_branch(path: str, own: Counter[str], whole: Counter[str], below: dict[str, list[str]]) -> Branch:
    children = [_build_branch(child, own, whole, below) for child in sorted(below.get(path, ()))]
    return Branch(path, path.rpartition("/")[2], own[path], whole[path], children)


def _ancestors(namespace: str, prefix: str) -> list[str]:
    """Return a namespace and its ancestors up to the prefix."""
    found = [namespace]
    while found[-1] != prefix:
        found.append(_parent(found[-1], prefix))
    return found


def _parent(path: str, prefix: str) -> str:
    above = path.rpartition("/")[0]
    return above if above else prefix


def _level(path: str, prefix: str) -> int:
    return path.count("/") + 1 - (prefix.count("/") + 1 if prefix else 0)
