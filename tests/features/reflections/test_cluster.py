"""Clusters of similar texts, deterministic."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.text.similarity import find_groups, jaccard

WORDS = st.frozensets(st.sampled_from("abcdefgh"), max_size=6)
TEXTS = st.dictionaries(st.integers(0, 99).map(str), WORDS, max_size=15)


def test_texts_around_the_most_similar_one_form_a_group() -> None:
    texts = {"1": frozenset("abc"), "2": frozenset("abcd"), "3": frozenset("abd"), "4": frozenset("xyz")}
    (group,) = find_groups(texts, min_similarity=0.4, min_size=3, max_size=5)
    assert (group.ids, group.shared) == (("1", "2", "3"), ("a", "b", "c", "d"))


@given(texts=TEXTS, least=st.integers(2, 4), more=st.integers(0, 4))
def test_groups_have_the_required_size_and_are_disjoint(
    texts: dict[str, frozenset[str]], least: int, more: int
) -> None:
    found = find_groups(texts, min_similarity=0.3, min_size=least, max_size=least + more)
    members = [id for group in found for id in group.ids]
    assert len(members) == len(set(members))
    assert all(least <= len(group.ids) <= least + more for group in found)
    assert all(list(group.ids) == sorted(group.ids) for group in found)


@given(texts=TEXTS, order=st.randoms(use_true_random=False))
def test_the_order_of_texts_does_not_matter(texts: dict[str, frozenset[str]], order: object) -> None:
    shuffled = list(texts.items())
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert find_groups(dict(shuffled), min_similarity=0.3, min_size=2, max_size=4) == find_groups(
        texts, min_similarity=0.3, min_size=2, max_size=4
    )


@given(one=WORDS, other=WORDS)
def test_similarity_is_symmetric_and_one_for_equal_texts(one: frozenset[str], other: frozenset[str]) -> None:
    assert jaccard(one, other) == jaccard(other, one)
    assert jaccard(one, one) == (1.0 if one else 0.0)
