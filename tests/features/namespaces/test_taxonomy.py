"""The tree of namespaces."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.records.taxonomy import Branch, Taxonomy, build_taxonomy

COUNTS = [("team", 3), ("team/a", 2), ("team/a/deep", 1), ("teams", 5), ("t_am", 7), ("home/cat", 4)]


def names(branch: Branch) -> list[str]:
    return [branch.namespace, *(name for child in branch.children for name in names(child))]


def test_each_branch_counts_its_own_memories_and_those_below() -> None:
    deep = Branch("team/a/deep", "deep", 1, 1, [])
    assert build_taxonomy(COUNTS, "team", depth=8, limit=10) == Taxonomy(
        Branch("team", "team", 3, 6, [Branch("team/a", "a", 2, 3, [deep])]), False
    )


def test_a_prefix_is_a_path_and_not_a_pattern() -> None:
    assert build_taxonomy(COUNTS, "t_am", depth=8, limit=10).tree == Branch("t_am", "t_am", 7, 7, [])


def test_memories_below_the_depth_limit_count_at_the_deepest_shown_branch() -> None:
    tree = build_taxonomy(COUNTS, depth=1, limit=10).tree
    assert tree == Branch(
        "",
        "",
        0,
        22,
        [
            Branch("home", "home", 0, 4, []),
            Branch("t_am", "t_am", 7, 7, []),
            Branch("team", "team", 3, 6, []),
            Branch("teams", "teams", 5, 5, []),
        ],
    )


def test_the_largest_branches_are_kept_and_the_tree_is_reported_as_truncated() -> None:
    tree, truncated = build_taxonomy(COUNTS, depth=8, limit=2)
    assert (names(tree), tree.subtree_count, truncated) == (["", "t_am", "team"], 22, True)


PATHS = st.lists(st.sampled_from(["a", "b", "a_"]), min_size=1, max_size=4).map("/".join)


@given(counts=st.dictionaries(PATHS, st.integers(1, 9)), depth=st.integers(0, 8), limit=st.integers(1, 9))
def test_no_memory_is_counted_twice_or_lost(counts: dict[str, int], depth: int, limit: int) -> None:
    tree, truncated = build_taxonomy(counts.items(), depth=depth, limit=limit)
    shown = names(tree)[1:]
    assert tree.subtree_count == sum(counts.values())
    assert len(shown) == len(set(shown)) <= limit
    assert truncated or {path for path in counts if path.count("/") < depth} <= set(shown)
