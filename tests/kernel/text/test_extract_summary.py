"""Extractive summaries contain only sentences of the text."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.text.extract_summary import extract_summary, fit_summary

ENGINE = (
    "Ada wrote the first program. It rained. The program computed Bernoulli numbers for the engine. Lunch was soup. "
    "The engine was never built, but the program for the engine was right."
)


def test_the_most_relevant_sentences_are_kept_in_order() -> None:
    assert extract_summary(ENGINE, max_sentences=2) == (
        "The program computed Bernoulli numbers for the engine. "
        "The engine was never built, but the program for the engine was right."
    )


def test_of_equal_weights_the_earlier_sentence_is_kept() -> None:
    assert (
        extract_summary("The gate is red. The door is blue. The wall is grey.", max_sentences=1) == "The gate is red."
    )


def test_rare_words_weigh_more() -> None:
    text = "The system runs the job nightly. The kestrel nests nightly above."
    rare = {"kestrel": 9.0, "nests": 5.0}
    assert extract_summary(text, max_sentences=1) == "The system runs the job nightly."
    assert (
        extract_summary(text, max_sentences=1, rarity=lambda term: rare.get(term, 0.5))
        == "The kestrel nests nightly above."
    )


def test_a_text_without_spaces_is_summarised() -> None:
    text = "会議は東京です。雨でした。東京の会議は重要です。"
    assert extract_summary(text, max_sentences=1) in ("会議は東京です。", "東京の会議は重要です。")


@given(st.text(alphabet="abc .\n。", max_size=80), st.integers(1, 4))
def test_every_sentence_of_a_summary_is_in_the_text(text: str, most: int) -> None:
    told = extract_summary(text, most)
    assert told == extract_summary(text, most)
    assert all(piece in text for piece in told.split(" ") if piece)


@given(st.text(alphabet="ab .\n。東", max_size=80), st.integers(0, 30))
def test_a_fitted_summary_is_from_the_text_and_within_the_limit(text: str, most: int) -> None:
    told = fit_summary(text, most, len)
    assert len(told) <= most
    assert all(piece in text for piece in told.removesuffix("...").split(" ") if piece)


def test_a_long_sentence_is_truncated_and_shorter_ones_are_kept_whole() -> None:
    assert fit_summary(ENGINE, 45, len) == "Ada wrote the first program. Lunch was soup."
    assert fit_summary("東" * 100, 20, len) == "東" * 17 + "..."
