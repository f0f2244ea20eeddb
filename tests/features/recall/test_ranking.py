"""Ranking: a pure function of the candidates, explained part by part."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.features.recall.dates import Event
from holdfast.features.recall.features import Candidate, Features, Passage, Scope, compute_word_weights, score_words
from holdfast.features.recall.ranking import (
    OVER_FACTOR,
    WEIGHTS,
    Adjustments,
    RankedMemory,
    Weights,
    compute_adjustments,
    rank_candidates,
    weighted_sum,
)
from holdfast.kernel.timestamps import DAY

NOW = 1_700_000_000_000_000
STEMS = ("plum", "oven", "ada", "tree")
SCOPE = Scope(
    memories=1000,
    mean_length=20.0,
    document_counts={"plum": 3, "oven": 40, "ada": 200, "tree": 0},
    document_shares={"plum": 0.003, "oven": 0.04, "ada": 0.2, "tree": 0.0},
    names=frozenset({"ada"}),
    speakers=("Ada",),
)

counts = st.dictionaries(st.sampled_from((*STEMS, "other")), st.integers(1, 9))
speakers = st.sampled_from((None, "Ada", "Ben"))
pieces = st.builds(
    Passage, st.integers(0, 99), st.integers(99, 199), counts, speakers, st.none() | st.floats(-1, 1, width=32)
)
ids = st.integers(0, 40).map("id-{:02}".format)
MANY = st.lists(
    st.builds(
        Candidate,
        id=ids,
        pieces=st.lists(pieces, max_size=3),
        length=st.integers(0, 200),
        labels=counts,
        reply=st.none() | st.floats(-1, 1, width=32),
        speaker=speakers,
        group=st.none() | st.sampled_from(("one", "two")),
        before=st.none() | ids,
        long_before=st.none() | ids,
        after=st.none() | ids,
        asks=st.booleans(),
        date=st.floats(0, 1, width=32),
        linked=st.lists(ids, max_size=2, unique=True).map(tuple),
        priority=st.integers(1, 10),
        confidence=st.floats(0, 1),
        updated_at=st.integers(NOW - 9000 * DAY, NOW + DAY),
        uses=st.integers(0, 10_000),
        utility=st.floats(-1, 1),
        over=st.booleans(),
    ),
    max_size=5,
    unique_by=lambda one: one.id,
)


def order(candidates: Sequence[Candidate], around: Sequence[Candidate] = (), **more: Any) -> list[RankedMemory]:
    return rank_candidates(candidates, around, STEMS, SCOPE, NOW, **more)


def ids_of(found: Sequence[RankedMemory]) -> list[str]:
    return [one.id for one in found]


def make_candidate(id: str, *, length: int = 10, **more: Any) -> Candidate:
    """Make a candidate of one passage; arguments that are stems are their counts."""
    held = {stem: more.pop(stem) for stem in STEMS if stem in more}
    piece = Passage(0, 50, held, cosine=more.pop("cosine", None))
    return Candidate(id, (piece,), length, **{"updated_at": NOW, **more})


# Score parts


@given(MANY, MANY)
def test_the_score_is_the_weighted_sum_of_features_times_the_adjustment(
    many: list[Candidate], around: list[Candidate]
) -> None:
    factors = {one.id: factor(one) for one in many}
    for one in order(many, [other for other in around if other.id not in factors]):
        assert one.adjustments.compute_factor() == factors[one.id]
        assert one.score == pytest.approx(weighted_sum(one.features, WEIGHTS) * one.adjustments.compute_factor())
        weighted = [getattr(WEIGHTS, name) * part for name, part in one.features._asdict().items()]
        assert weighted_sum(one.features, WEIGHTS) == pytest.approx(sum(weighted))


@given(MANY)
def test_every_feature_of_a_candidate_is_between_0_and_1(many: list[Candidate]) -> None:
    assert all(0 <= part <= 1 for one in order(many) for part in one.features)


@given(MANY, st.sampled_from(Weights._fields), st.floats(-1, 1))
def test_a_weight_changes_a_score_only_by_its_own_feature(many: list[Candidate], name: str, by: float) -> None:
    changed = WEIGHTS._replace(**{name: getattr(WEIGHTS, name) + by})
    before = {one.id: one for one in order(many)}
    for one in order(many, weights=changed):
        assert one.features == before[one.id].features
        difference = by * getattr(one.features, name) * one.adjustments.compute_factor()
        assert one.score == pytest.approx(before[one.id].score + difference, abs=1e-9)


def test_every_feature_has_a_weight_and_only_asks_is_negative() -> None:
    assert Features._fields == Weights._fields
    assert [name for name, weight in WEIGHTS._asdict().items() if weight <= 0] == ["asks"]


@given(MANY)
def test_the_terms_are_the_query_stems_of_a_candidate_in_query_order(many: list[Candidate]) -> None:
    by_id = {one.id: one for one in many}
    for one in order(many):
        held = {*by_id[one.id].labels, *(stem for piece in by_id[one.id].pieces for stem in piece.counts)}
        assert one.terms == tuple(stem for stem in STEMS if stem in held)
        assert (one.passage is None) == (not by_id[one.id].pieces)


# The order


@given(MANY, MANY, st.randoms())
def test_the_order_of_the_input_changes_nothing(many: list[Candidate], around: list[Candidate], random: Any) -> None:
    known = {one.id for one in many}
    beside = [one for one in around if one.id not in known]
    shuffled, others = (random.sample(given, len(given)) for given in (many, beside))
    assert order(shuffled, others) == order(many, beside)


@given(MANY)
def test_every_candidate_is_ranked_once_by_a_score_that_never_rises(many: list[Candidate]) -> None:
    found = order(many)
    scores = [one.score for one in found]
    assert sorted(ids_of(found)) == sorted(one.id for one in many)
    assert scores == sorted(scores, reverse=True)
    assert [order(many, limit=most) for most in (0, 1, 3)] == [found[:most] for most in (0, 1, 3)]


@given(MANY, MANY)
def test_other_candidates_do_not_change_the_keyword_and_vector_scores_of_one(
    many: list[Candidate], more: list[Candidate]
) -> None:
    known = {one.id for one in many}
    alone = {one.id: (one.bm25, one.cosine, one.terms) for one in order(many)}
    among = order([*many, *(one for one in more if one.id not in known)])
    assert {one.id: (one.bm25, one.cosine, one.terms) for one in among if one.id in known} == alone


@given(MANY)
def test_an_unrelated_candidate_leaves_the_others_unchanged(many: list[Candidate]) -> None:
    unrelated = Candidate("unrelated", (Passage(0, 9, {"other": 3}, cosine=0.0),), 30, updated_at=NOW)
    found = order([*many, unrelated])
    assert [one for one in found if one.id != "unrelated"] == order(many)
    assert {one.id: one.score for one in found}["unrelated"] == 0


@given(MANY)
def test_a_neighbour_without_query_words_leaves_the_others_unchanged(many: list[Candidate]) -> None:
    silent = Candidate("id-99", (Passage(0, 9, {"other": 3}),), 30)
    without = [replace(one, group=None) for one in many]
    assert order([replace(one, before=one.before or "id-99") for one in without], [silent]) == order(without)


def test_equal_candidates_are_ordered_by_newest_then_by_lowest_id() -> None:
    old, new = make_candidate("a", updated_at=NOW - 400 * DAY), make_candidate("b", updated_at=NOW)
    assert ids_of(order([old, new])) == ids_of(order([new, old])) == ["b", "a"]
    assert ids_of(order([make_candidate("b", plum=1), make_candidate("a", plum=1)])) == ["a", "b"]
    later = [make_candidate("a", plum=1, updated_at=NOW + 1), make_candidate("b", plum=1, updated_at=NOW + 2)]
    assert ids_of(order(later)) == ["b", "a"], "a moment that is to come is no younger than now"


def test_no_candidates_give_an_empty_ranking() -> None:
    assert order([]) == []


# Words


@given(MANY, st.sampled_from(STEMS))
def test_one_more_matching_word_raises_the_word_score(many: list[Candidate], stem: str) -> None:
    weights = compute_word_weights(STEMS, SCOPE)
    for one in many:
        if one.pieces:
            first, *others = one.pieces
            fuller = replace(first, counts={**first.counts, stem: first.counts.get(stem, 0) + 1})
            after = replace(one, pieces=(fuller, *others))
            assert score_words(after, weights, 20) > score_words(one, weights, 20)


@given(st.integers(0, 999), st.integers(1, 1000))
def test_the_rarer_of_two_words_scores_higher(held: int, more: int) -> None:
    scope = SCOPE._replace(
        memories=2000, document_counts={"plum": held, "oven": held + more}, document_shares={}, names=frozenset()
    )
    weights = compute_word_weights(("plum", "oven"), scope)
    assert weights["plum"] > weights["oven"] > 0


def test_a_name_scores_lower_than_another_word_of_equal_rarity() -> None:
    scope = SCOPE._replace(document_counts={"ada": 5, "plum": 5}, document_shares={})
    weights = compute_word_weights(("ada", "plum"), scope)
    assert 0 < weights["ada"] < weights["plum"]


def test_the_shorter_of_two_memories_with_the_same_words_scores_higher() -> None:
    assert ids_of(order([make_candidate("long", plum=1, length=400), make_candidate("short", plum=1)])) == [
        "short",
        "long",
    ]


def test_words_in_one_passage_score_higher_than_words_far_apart() -> None:
    together = Candidate("together", (Passage(0, 9, {"plum": 1, "oven": 1}), Passage(9, 19, {})), 40)
    apart = Candidate("apart", (Passage(0, 9, {"plum": 1}), Passage(9, 19, {"oven": 1})), 40)
    assert ids_of(order([apart, together])) == ["together", "apart"]


def test_words_said_by_the_named_person_score_higher_than_words_said_to_them() -> None:
    hers = Candidate("hers", (Passage(0, 9, {"plum": 1}, "Ada"), Passage(9, 19, {}, "Ben")), 40)
    his = Candidate("his", (Passage(0, 9, {"plum": 1}, "Ben"), Passage(9, 19, {}, "Ada")), 40, updated_at=1)
    found = order([his, hers])
    assert ids_of(found) == ["hers", "his"]
    assert (found[0].features.speaker, found[0].bm25) == (found[1].features.speaker, found[1].bm25), (
        "both speak in both"
    )


# Features other than words


def test_a_reply_without_query_words_is_found_through_the_message_it_follows() -> None:
    asked = make_candidate("asked", plum=1, oven=1, group="t", after="reply", asks=True)
    reply = make_candidate("reply", group="t", before="asked")
    found = order([make_candidate("stranger", updated_at=NOW + 1), reply, asked])
    assert ids_of(found)[1:] == ["reply", "stranger"]
    assert (found[1].features.before, found[2].score) == (found[0].features.words, 0)


def test_a_reply_to_a_matching_question_ranks_before_a_reply_to_a_matching_statement() -> None:
    asked = make_candidate("asked", plum=1, group="s", after="answer", asks=True)
    told = make_candidate("told", plum=1, group="t", after="remark")
    answer, remark = (
        make_candidate("answer", group="s", before="asked"),
        make_candidate("remark", group="t", before="told"),
    )
    found = {one.id: one.features for one in order([asked, told, answer, remark])}
    assert found["answer"] == found["remark"]._replace(answers=found["asked"].words)
    assert found["remark"].answers == 0


def test_a_question_in_other_words_does_not_make_its_reply_an_answer() -> None:
    asked = make_candidate("asked", speaker="Ada", asks=True)
    (found, *_) = order([make_candidate("reply", before="asked", plum=1), asked])
    assert (found.id, found.features.answers) == ("reply", 0)


def test_several_close_passages_score_higher_than_one() -> None:
    dwells = Candidate("dwells", (Passage(0, 9, {}, cosine=0.6), Passage(9, 19, {}, cosine=0.5)), 40)
    passing = Candidate("passing", (Passage(0, 9, {}, cosine=0.1), Passage(9, 19, {}, cosine=0.6)), 40)
    once = Candidate("once", (Passage(0, 9, {}, cosine=0.6),), 40)
    found = order([passing, once, dwells])
    assert ids_of(found) == ["dwells", "once", "passing"]
    assert found[1].cosine == found[2].cosine == pytest.approx(0.6), "what is far takes nothing from what is near"


@given(MANY)
def test_the_order_of_passages_does_not_change_the_similarity(many: list[Candidate]) -> None:
    turned = [replace(one, pieces=tuple(reversed(one.pieces))) for one in many]
    near = {one.id: one.cosine for one in order(many)}
    assert {one.id: one.cosine for one in order(turned)} == pytest.approx(near)


@pytest.mark.parametrize(
    "more",
    [
        {"speaker": "Ada"},
        {"date": 1.0},
        {"cosine": 0.8},
        {"linked": ("best",)},
        {"before": "best"},
        {"long_before": "best"},
        {"after": "best"},
        {"group": "thread", "before": "nobody"},
    ],
    ids=str,
)
def test_further_evidence_decides_between_two_memories_with_the_same_words(more: dict[str, Any]) -> None:
    best = make_candidate("best", plum=3, oven=3, cosine=0.9, group="thread", before="nobody", speaker="Ada")
    one, other = make_candidate("one", oven=1, cosine=0.1), make_candidate("other", oven=1, **{"cosine": 0.1, **more})
    assert ids_of(order([best, one, other])) == ["best", "other", "one"]


def test_all_speakers_with_the_queried_role_count_equally() -> None:
    scope = SCOPE._replace(speakers=("User", "human"))
    found = rank_candidates(
        [make_candidate("a", speaker="User"), make_candidate("b", speaker="human"), make_candidate("c")],
        (),
        STEMS,
        scope,
        NOW,
    )
    assert {one.id: one.features.speaker for one in found} == {"a": 1, "b": 1, "c": 0}


def test_a_question_ranks_after_a_statement_with_the_same_words() -> None:
    assert ids_of(
        order([make_candidate("asks", plum=1, asks=True), make_candidate("tells", plum=1, updated_at=0)])
    ) == ["tells", "asks"]


def test_a_thread_with_one_memory_has_no_thread_score() -> None:
    (found,) = order([make_candidate("alone", plum=1, group="thread")])
    assert (found.features.thread_words, found.features.thread_vector) == (0, 0)


def test_a_memory_dated_after_an_event_ranks_first_if_the_query_asks_for_after() -> None:
    told = make_candidate("told", tree=1, at=NOW - 5 * DAY)
    many = [
        make_candidate("earlier", plum=1, at=NOW - 9 * DAY),
        make_candidate("later", plum=1, at=NOW - DAY, updated_at=0),
        told,
    ]
    for side, first in (("before", "earlier"), ("after", "later")):
        scope = SCOPE._replace(events=((Event(side, ("tree",)), frozenset({"tree"})),))  # type: ignore[arg-type]
        found = {one.id: one.features.date for one in rank_candidates(many, (), STEMS, scope, NOW)}
        assert {id for id, date in found.items() if date} == {first, "told"}


@given(MANY)
def test_an_unknown_event_changes_nothing(many: list[Candidate]) -> None:
    scope = SCOPE._replace(events=((Event("after", ("moon",)), frozenset({"moon"})),))
    assert rank_candidates(many, (), STEMS, scope, NOW) == order(many)


# Candidates without an embedding


def vectors_of(found: Sequence[RankedMemory]) -> dict[str, float]:
    return {one.id: one.features.vector for one in found}


def test_a_missing_embedding_is_estimated_from_candidates_with_as_many_words() -> None:
    known = [
        make_candidate("near", plum=1, cosine=0.8),
        make_candidate("far", plum=1, cosine=0.4),
        make_candidate("other", cosine=0.6),
    ]
    found = {one.id: one for one in order([*known, make_candidate("unknown", plum=1), make_candidate("silent")])}
    near, far = found["near"].features.vector, found["far"].features.vector
    assert (found["unknown"].features.vector, found["unknown"].cosine) == (pytest.approx((near + far) / 2), None)
    assert found["silent"].score == 0, "nothing speaks for it"


@given(MANY)
def test_more_words_never_lower_the_estimate_and_no_words_give_zero(many: list[Candidate]) -> None:
    found = order([make_candidate("exact", plum=9, oven=9, ada=9, tree=9, cosine=0.0), *many])
    unknown = [one for one in found if one.cosine is None and len(one.terms) < len(STEMS)]
    estimates = [(one.features.words, one.features.vector) for one in unknown]
    assert [vector for _, vector in sorted(estimates)] == sorted(vector for _, vector in estimates)
    assert all(vector == 0 for words, vector in estimates if not words)


def without_vectors(many: Sequence[Candidate]) -> list[Candidate]:
    return [replace(one, pieces=[replace(piece, cosine=None) for piece in one.pieces], reply=None) for one in many]


@given(MANY)
def test_without_any_embedding_words_alone_decide(many: list[Candidate]) -> None:
    found = order(without_vectors(many))
    assert all(one.features.vector == one.features.thread_vector == 0 for one in found)


others = st.builds(
    Candidate,
    id=ids,
    pieces=st.tuples(
        st.builds(
            Passage,
            st.just(0),
            st.just(50),
            st.dictionaries(st.sampled_from(("oven", "ada", "plum")), st.integers(1, 9), max_size=3),
            cosine=st.none() | st.floats(0.2, 1),
        )
    ),
    length=st.just(10),
    reply=st.none() | st.floats(0.2, 1),
    group=st.none() | st.sampled_from(("one", "two")),
    before=st.none() | ids,
    after=st.none() | ids,
    updated_at=st.just(NOW),
)


@given(st.lists(others, min_size=1, max_size=6, unique_by=lambda one: one.id), st.sampled_from((None, "one", "three")))
def test_embeddings_of_others_never_rank_them_above_an_exact_match(many: list[Candidate], group: str | None) -> None:
    exact = make_candidate("exact", plum=1, oven=1, ada=1, tree=1, group=group, after="id-00")
    before = {one.id: one.score for one in order([exact, *without_vectors(many)])}
    after = {one.id: one.score for one in order([exact, *many])}
    assert all(after[id] < after["exact"] for id, score in before.items() if score < before["exact"])


def test_embeddings_of_a_whole_thread_never_rank_it_above_an_exact_match() -> None:
    exact = make_candidate("exact", plum=1, oven=1, ada=1, tree=1)
    near = make_candidate("near", plum=5, oven=5, ada=1, date=0.2, cosine=0.9, group="t", before="far")
    far = make_candidate("far", plum=6, oven=6, ada=1, cosine=0.2, group="t", after="near")
    assert ids_of(order([exact, *without_vectors([near, far])])) == ["exact", "near", "far"]
    assert ids_of(order([exact, near, far])) == ["exact", "near", "far"]


def test_an_exact_match_without_an_embedding_is_raised_only_as_far_as_necessary() -> None:
    many = [
        make_candidate("peer", plum=1, cosine=0.4),
        make_candidate("unknown", plum=1),
        make_candidate("meant", cosine=0.9),
    ]
    found = rank_candidates(many, (), ("plum",), SCOPE, NOW)
    near = vectors_of(found)
    assert found[-1].id == "meant"
    assert near["peer"] == near["unknown"] < near["meant"]


def test_a_memory_without_a_thread_gets_its_own_thread_score_beside_threads() -> None:
    alone = make_candidate("alone", plum=1, oven=1, updated_at=1)
    thread = [
        make_candidate("first", plum=1, group="t", after="next"),
        make_candidate("next", oven=1, group="t", before="first"),
    ]
    found = order([alone, *thread])
    assert (found[0].id, found[0].features.thread_words) == ("alone", found[0].features.words)
    assert order([alone])[0].features.thread_words == 0, "where nothing is in a thread"


# The adjustment


def factor(one: Candidate) -> float:
    return Adjustments(*compute_adjustments(one, NOW)).compute_factor()


@given(MANY)
def test_the_adjustment_is_gentle_and_lower_for_memories_no_longer_valid(many: list[Candidate]) -> None:
    for one in many:
        holds = factor(replace(one, over=False))
        assert 0.65 < holds < 1.25
        assert factor(replace(one, over=True)) == pytest.approx(OVER_FACTOR * holds)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"priority": 1}, {"priority": 10}),
        ({"confidence": 0.2}, {"confidence": 1.0}),
        ({"updated_at": NOW - 400 * DAY}, {"updated_at": NOW}),
        ({"uses": 0}, {"uses": 30}),
        ({"utility": -0.5}, {"utility": 0.5}),
        ({"over": True}, {"over": False}),
    ],
    ids=lambda given: next(iter(given)),
)
def test_priority_confidence_age_and_use_decide_between_equals(less: dict[str, Any], more: dict[str, Any]) -> None:
    assert ids_of(order([make_candidate("a", plum=1, **less), make_candidate("b", plum=1, **more)])) == ["b", "a"]


def test_a_much_better_match_ranks_first_whatever_its_priority_and_age() -> None:
    weak = make_candidate("weak", oven=1, priority=10, uses=50)
    strong = make_candidate("strong", plum=2, oven=2, priority=1, confidence=0.5, updated_at=0)
    assert ids_of(order([weak, strong])) == ["strong", "weak"]
