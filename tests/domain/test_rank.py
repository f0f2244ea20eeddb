"""The words decide; priority, confidence and age only adjust."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from holdfast.domain.moment import DAY
from holdfast.domain.rank import adjustment, ranked

NOW = 1_700_000_000_000_000


class Hit(Struct, frozen=True):
    id: str
    score: float = 1.0
    priority: int = 5
    confidence: float = 1.0
    updated_at: int = NOW


HITS = st.lists(
    st.builds(
        Hit,
        id=st.uuids().map(str),
        score=st.floats(1e-9, 50),
        priority=st.integers(1, 10),
        confidence=st.floats(0, 1),
        updated_at=st.integers(NOW - 9000 * DAY, NOW + DAY),
    ),
    max_size=20,
    unique_by=lambda hit: hit.id,
)


def order(*hits: Hit) -> list[str]:
    return [id for id, _ in ranked(hits, NOW)]


def test_of_two_equal_hits_the_newer_comes_first() -> None:
    assert order(Hit("old", updated_at=NOW - 400 * DAY), Hit("new")) == ["new", "old"]
    assert order(Hit("b", updated_at=NOW + 1), Hit("a", updated_at=NOW)) == ["b", "a"]


def test_of_two_hits_equal_in_everything_the_order_is_still_one() -> None:
    assert order(Hit("b"), Hit("a")) == order(Hit("a"), Hit("b")) == ["a", "b"]


def test_priority_and_confidence_decide_between_equal_words() -> None:
    assert order(Hit("low", priority=1), Hit("high", priority=10)) == ["high", "low"]
    assert order(Hit("doubtful", confidence=0.2), Hit("certain")) == ["certain", "doubtful"]


def test_what_matches_much_better_comes_first_however_unimportant_and_old_it_is() -> None:
    weak = Hit("weak", score=1.0, priority=10)
    strong = Hit("strong", score=1.5, priority=1, confidence=0.0, updated_at=0)
    assert order(weak, strong) == ["strong", "weak"]


def test_nothing_found_is_ranked_as_nothing() -> None:
    assert ranked([], NOW) == []


@given(HITS)
def test_every_hit_is_ranked_once_by_a_score_between_0_and_1_that_never_rises(hits: list[Hit]) -> None:
    scores = [score for _, score in ranked(hits, NOW)]
    assert sorted(order(*hits)) == sorted(hit.id for hit in hits)
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


@given(HITS)
def test_the_adjustment_is_gentle(hits: list[Hit]) -> None:
    assert all(0.77 - 1e-9 <= adjustment(hit, NOW) <= 1.1 for hit in hits)
