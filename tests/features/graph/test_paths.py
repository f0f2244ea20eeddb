"""Path search compared with exhaustive enumeration."""

from itertools import combinations, pairwise, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.features.graph.paths import PathSearch, find_simple_paths

NODES = "abcdef"
EDGES = list(combinations(NODES, 2))


def neighbours(edges: list[tuple[str, str]]) -> dict[str, list[str]]:
    near: dict[str, set[str]] = {}
    for one, other in edges:
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    return {node: sorted(others) for node, others in near.items()}


def every_path(near: dict[str, list[str]], source: str, target: str, depth: int) -> list[tuple[str, ...]]:
    """All simple paths, by trying every order of the nodes between the ends."""
    between = [node for node in NODES if node not in (source, target)]
    tried = [
        (source, *middle, target)
        for length in range(min(depth, len(NODES) - 1))
        for middle in permutations(between, length)
    ]
    real = [path for path in tried if all(b in near.get(a, ()) for a, b in pairwise(path))]
    return sorted(real, key=lambda path: (len(path), path))


@settings(max_examples=300, deadline=None)
@given(edges=st.lists(st.sampled_from(EDGES), unique=True), depth=st.integers(1, 7), most=st.integers(1, 50))
def test_the_first_paths_by_length_and_name_are_returned(edges: list[tuple[str, str]], depth: int, most: int) -> None:
    near = neighbours(edges)
    found = find_simple_paths(near, "a", "f", depth=depth, most=most)
    assert found == PathSearch(every_path(near, "a", "f", depth)[:most], True)


def test_a_node_is_one_path_to_itself() -> None:
    assert find_simple_paths({}, "a", "a", depth=1, most=1) == PathSearch([("a",)], True)


def test_a_dense_graph_of_500_nodes_costs_only_the_paths_asked_for() -> None:
    names = [f"{number:03}" for number in range(500)]
    near = {name: [other for other in names if other != name] for name in names}
    found = find_simple_paths(near, "000", "499", depth=7, most=50)
    assert found == PathSearch([("000", "499"), *(("000", name, "499") for name in names[1:50])], True)


@settings(max_examples=100, deadline=None)
@given(edges=st.lists(st.sampled_from(EDGES), unique=True), work=st.integers(1, 200))
def test_a_truncated_search_returns_the_first_paths_and_reports_it(edges: list[tuple[str, str]], work: int) -> None:
    near = neighbours(edges)
    every = every_path(near, "a", "f", 7)
    found = find_simple_paths(near, "a", "f", depth=7, most=100, work=work)
    assert found.paths == every[: len(found.paths)]
    assert not found.complete or len(found.paths) == len(every)
