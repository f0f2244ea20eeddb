"""Words and vectors in one order: either may find, both together count more, whatever the scale of the words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from holdfast.domain.rank import NEARNESS_WEIGHT, UNRELATED, WORDS_WEIGHT, fused, ranked

NOW = 1_700_000_000_000_000


class Found(Struct, frozen=True):
    id: str
    score: float
    priority: int = 5
    confidence: float = 1.0
    updated_at: int = NOW


NAMES = st.sampled_from("abcdefghij")
WORDS = st.dictionaries(NAMES, st.floats(0.01, 40))
COSINES = st.dictionaries(NAMES, st.floats(-1, 1))


def scores(words: dict[str, float], cosines: dict[str, float]) -> dict[str, float]:
    by_words = [Found(id, score) for id, score in words.items()]
    return {hit.id: hit.score for hit in fused(by_words, {id: Found(id, cosine) for id, cosine in cosines.items()})}


@given(WORDS, COSINES)
def test_every_hit_is_there_once_and_scored_between_nothing_and_all(
    words: dict[str, float], cosines: dict[str, float]
) -> None:
    found = scores(words, cosines)
    assert words.keys() <= found.keys() <= words.keys() | cosines.keys()
    assert all(0 < score <= WORDS_WEIGHT + NEARNESS_WEIGHT + 1e-9 for score in found.values())


@given(WORDS, COSINES)
def test_what_no_word_found_and_is_as_good_as_unrelated_is_left_out(
    words: dict[str, float], cosines: dict[str, float]
) -> None:
    related = {id for id, cosine in cosines.items() if cosine > UNRELATED}
    assert scores(words, cosines).keys() == words.keys() | related


@given(WORDS)
def test_without_vectors_the_order_is_that_of_the_words(words: dict[str, float]) -> None:
    hits = [Found(id, score) for id, score in words.items()]
    assert [id for id, _ in ranked(fused(hits, {}), NOW)] == [id for id, _ in ranked(hits, NOW)]


@given(WORDS, COSINES, NAMES)
def test_being_near_never_lowers_a_hit_by_words(words: dict[str, float], cosines: dict[str, float], id: str) -> None:
    without = {name: cosine for name, cosine in cosines.items() if name != id}
    if words:
        best, found = max(words.values()), scores(words, cosines)
        assert all(found[name] >= WORDS_WEIGHT * score / best - 1e-9 for name, score in words.items())
    if id in words and id in cosines:
        assert scores(words, cosines)[id] >= scores(words, without)[id] - 1e-9


@given(WORDS, COSINES)
def test_of_two_hits_the_one_that_is_better_by_both_comes_first(
    words: dict[str, float], cosines: dict[str, float]
) -> None:
    found = scores(words, cosines)
    for one in found:
        for other in found:
            if words.get(one, 0) >= words.get(other, 0) and cosines.get(one, -1) >= cosines.get(other, -1):
                assert found[one] >= found[other] - 1e-9


@given(WORDS, COSINES, st.floats(0.01, 100))
def test_the_scale_of_the_scores_of_words_does_not_matter(
    words: dict[str, float], cosines: dict[str, float], factor: float
) -> None:
    scaled = {id: score * factor for id, score in words.items()}
    assert scores(scaled, cosines) == pytest.approx(scores(words, cosines))


def test_a_hit_by_both_comes_before_the_best_by_either() -> None:
    found = scores({"both": 9, "words": 10}, {"both": 0.8, "near": 0.9})
    assert max(found, key=found.__getitem__) == "both"


def test_what_is_known_of_a_hit_goes_with_it() -> None:
    hit = Found("a", 0.9, priority=9, confidence=0.5, updated_at=7)
    (only,) = fused([], {"a": hit})
    assert (only.priority, only.confidence, only.updated_at) == (9, 0.5, 7)
    (only,) = fused([replace(hit, score=3.0)], {"a": hit})
    assert only.score == pytest.approx(WORDS_WEIGHT + NEARNESS_WEIGHT)
