"""A summary says what the text says, in its words."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.summary import summary

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
