"""Deterministic analysis before a model call: formulas, names, and differences to ai-memory."""

from math import isclose

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast import helpers
from holdfast.helpers import MemoryHandle, cosine_pre_filter, fts_classifier, jaccard_overlap, tokens

words = st.lists(st.sampled_from("alpha beta gamma delta Alpha (beta) gamma, 東京 タワー".split()), max_size=12).map(
    " ".join
)
numbers = st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=6)


def handles(*bodies: str) -> list[MemoryHandle]:
    return [MemoryHandle(f"m{number}", body) for number, body in enumerate(bodies)]


@given(words, words)
@settings(max_examples=50)
def test_the_overlap_is_the_jaccard_index_and_symmetric(one: str, other: str) -> None:
    first, second = tokens(one), tokens(other)
    found = helpers.jaccard(first, second)
    assert found == helpers.jaccard(second, first)
    assert 0.0 <= found <= 1.0
    if first | second:
        assert isclose(found * len(first | second), len(first & second))
        assert (found == 1.0) is (first == second)
    assert 0.0 <= helpers.contained(first, second) <= 1.0


@given(words)
@settings(max_examples=30)
def test_a_text_overlaps_fully_with_itself_unless_empty(text: str) -> None:
    assert helpers.jaccard(tokens(text), tokens(text)) == (1.0 if tokens(text) else 0.0)


@given(numbers, st.floats(0.001, 1000.0))
@settings(max_examples=50)
def test_a_cosine_does_not_depend_on_length(vector: list[float], factor: float) -> None:
    assume(all(abs(number) > 1e-100 for number in vector if number))
    found = helpers.cosine(vector, [number * factor for number in vector])
    assert (found is None) is (not any(vector)) or isclose(found or 0.0, 1.0, abs_tol=1e-6)


@given(numbers, numbers)
@settings(max_examples=50)
def test_a_cosine_is_symmetric_and_between_minus_one_and_one(one: list[float], other: list[float]) -> None:
    found = helpers.cosine(one, other)
    assert found == helpers.cosine(other, one)
    assert found is None or -1.0 <= found <= 1.0
    assert found is None or len(one) == len(other)


def test_tokens_are_lowercased_and_stripped_of_punctuation() -> None:
    assert tokens("(Hello), WORLD! -- 42% don't") == {"hello", "world", "42", "don't"}
    assert tokens("") == tokens(" -- ... ") == frozenset()


def test_a_sentence_without_spaces_is_many_tokens_but_one_for_ai_memory() -> None:
    assert helpers.jaccard(tokens("东京今天下雨"), tokens("东京明天下雨")) > 0
    assert tokens("东京今天下雨", compat=True) == {"东京今天下雨"}


def test_two_empty_texts_do_not_overlap() -> None:
    assert jaccard_overlap("", handles("")).payload["top_candidates"][0]["overlap"] == 0.0


def test_the_ten_highest_overlaps_are_listed_and_all_are_counted() -> None:
    found = jaccard_overlap("a b c", handles(*["a b c"] * 12, "x"))
    assert found.kind == found.payload["helper"] == "jaccard_overlap"
    assert (found.payload["candidates_scored"], found.payload["candidates_above"]) == (13, 12)
    assert found.payload["candidates_left_out"] == 3
    assert len(found.payload["top_candidates"]) == 10
    assert found.summary == "12 of 13 candidates overlap by 0.40"
    literal = jaccard_overlap("a b c", handles(*["a b c"] * 12, "x"), compat=True)
    assert literal.summary == "10 of 13 candidates overlap by 0.40"
    assert set(literal.payload) == {"helper", "candidates_scored", "top_candidates"}
    assert set(literal.payload["top_candidates"][0]) == {"id", "overlap", "preview"}


def test_candidates_are_sorted_by_overlap_with_ties_in_input_order() -> None:
    found = jaccard_overlap("a b", handles("x", "a b", "a", "b"))
    assert [(row["id"], row["overlap"]) for row in found.payload["top_candidates"]] == [
        ("m1", 1.0),
        ("m2", 0.5),
        ("m3", 0.5),
        ("m0", 0.0),
    ]


def test_a_short_text_inside_a_long_one_is_reported_despite_a_small_overlap() -> None:
    row = jaccard_overlap("deploy on tuesday", handles("we deploy on tuesday " + "and more words here x " * 3)).payload
    assert row["top_candidates"][0]["overlap"] < 0.4
    assert row["top_candidates"][0]["contained"] == 1.0


def test_a_truncated_preview_is_marked() -> None:
    (row,) = jaccard_overlap("x", handles("y" * 121)).payload["top_candidates"]
    assert row["preview"] == "y" * 119 + "…"
    assert jaccard_overlap("x", handles("y" * 121), compat=True).payload["top_candidates"][0]["preview"] == "y" * 120
    assert jaccard_overlap("x", handles("y" * 120)).payload["top_candidates"][0]["preview"] == "y" * 120


def test_similarity_above_one_fifth_passes_and_incomparable_vectors_have_no_score() -> None:
    near, far = MemoryHandle("near", "n", (1.0, 0.2)), MemoryHandle("far", "f", (-1.0, 0.0))
    longer, absent, zero = (
        MemoryHandle("longer", "l", (1.0, 0.0, 0.0)),
        MemoryHandle("none", "-"),
        MemoryHandle("zero", "z", (0.0, 0.0)),
    )
    found = cosine_pre_filter((1.0, 0.0), [near, far, longer, absent, zero]).payload
    assert [row["score"] is None for row in found["candidates"]] == [False, False, True, True, True]
    assert [row["above_threshold"] for row in found["candidates"]] == [True, False, False, False, False]
    assert (found["threshold"], found["candidates_scored"], found["candidates_kept"]) == (0.20, 5, 1)
    assert found["candidates_without_score"] == 3
    literal = cosine_pre_filter((1.0, 0.0), [longer, absent, zero], compat=True).payload
    assert [row["score"] for row in literal["candidates"]] == [0.0, None, 0.0]
    assert set(literal) == {"helper", "threshold", "candidates_scored", "candidates_kept", "candidates"}


def test_a_text_without_a_vector_matches_nothing() -> None:
    found = cosine_pre_filter(None, [MemoryHandle("m", "b", (1.0,))], threshold=0.0)
    assert (found.payload["candidates"][0]["score"], found.summary) == (None, "0/1 candidates kept at 0.00")


@pytest.mark.parametrize(
    ("text", "ours", "literal"),
    [
        ("We strengthen the wall", "declarative", "procedural"),
        ("They lengthen the pier", "declarative", "procedural"),
        ("One footstep was heard", "declarative", "procedural"),
        ("Gloves prevent burns", "declarative", "episodic"),
        ("Stores converge eventually", "declarative", "episodic"),
        ("First, run make. Then push it.", "procedural", "procedural"),
        ("Yesterday the server fell over.", "episodic", "episodic"),
        ("Paris is the capital of France.", "declarative", "declarative"),
        ("1. Open the valve\n2. Wait\n", "procedural", "declarative"),
        ("首先打开文件，然后保存。", "procedural", "declarative"),
    ],
)
def test_a_kind_is_classified_by_whole_words(text: str, ours: str, literal: str) -> None:
    assert fts_classifier(text).payload["fact_kind"] == ours
    assert fts_classifier(text, compat=True).payload["fact_kind"] == literal


def test_a_kind_has_its_evidence_and_is_weak_with_little_of_it() -> None:
    sure = fts_classifier("Yesterday it happened again.", namespace="ops").payload
    assert not sure["weak"]
    assert [one["text"] for one in sure["evidence"]] == ["Yesterday", "happened"]
    assert (sure["namespace"], sure["tokens"]) == ("ops", 4)
    assert fts_classifier("The event loop has one thread.").payload["weak"]
    assert fts_classifier("Paris is large.").summary == "declarative (weak), 3 distinct tokens"
    assert set(fts_classifier("x", compat=True).payload) == {"helper", "fact_kind", "namespace", "tokens"}


def test_equal_evidence_for_two_kinds_is_weak() -> None:
    assert fts_classifier("How to tell what happened").payload["weak"]
