"""A summary says what the text says, in its words."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.curation.summary import fitting, summary

ENGINE = (
    "Ada wrote the first program. It rained. The program computed Bernoulli numbers for the engine. Lunch was soup. "
    "The engine was never built, but the program for the engine was right."
)


def test_the_weightiest_sentences_are_kept_in_their_order() -> None:
    assert summary(ENGINE, most=2) == (
        "The program computed Bernoulli numbers for the engine. "
        "The engine was never built, but the program for the engine was right."
    )


def test_of_equal_sentences_the_earlier_one_is_kept() -> None:
    assert summary("The gate is red. The door is blue. The wall is grey.", most=1) == "The gate is red."


def test_what_is_rare_elsewhere_weighs_more() -> None:
    text = "The system runs the job nightly. The kestrel nests nightly above."
    rare = {"kestrel": 9.0, "nests": 5.0}
    assert summary(text, most=1) == "The system runs the job nightly."
    assert summary(text, most=1, rarity=lambda term: rare.get(term, 0.5)) == "The kestrel nests nightly above."


def test_a_text_that_is_written_without_blanks_is_summarised() -> None:
    text = "会議は東京です。雨でした。東京の会議は重要です。"
    assert summary(text, most=1) in ("会議は東京です。", "東京の会議は重要です。")


@given(st.text(alphabet="abc .\n。", max_size=80), st.integers(1, 4))
def test_every_sentence_of_a_summary_is_in_the_text(text: str, most: int) -> None:
    told = summary(text, most)
    assert told == summary(text, most)
    assert all(piece in text for piece in told.split(" ") if piece)


@given(st.text(alphabet="ab .\n。東", max_size=80), st.integers(0, 30))
def test_what_fits_is_of_the_text_and_no_longer_than_asked(text: str, most: int) -> None:
    told = fitting(text, most, len)
    assert len(told) <= most
    assert all(piece in text for piece in told.removesuffix("...").split(" ") if piece)


def test_a_sentence_that_is_too_long_is_cut_and_shorter_ones_come_whole() -> None:
    assert fitting(ENGINE, 45, len) == "Ada wrote the first program. Lunch was soup."
    assert fitting("東" * 100, 20, len) == "東" * 17 + "..."
