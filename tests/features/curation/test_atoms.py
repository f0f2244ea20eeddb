"""A text cut in atoms is still the whole text."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.curation.split import atoms, title_of
from holdfast.kernel.text.token_count import count


def told(text: str, most: int, **more: object) -> list[str]:
    return [text[start:end] for start, end in atoms(text, most, **more)]  # type: ignore[arg-type]


def test_sentences_are_kept_together_as_far_as_they_fit() -> None:
    text = "One two three. Four five six.\n\nSeven eight nine. Ten."
    assert told(text, 9) == ["One two three. Four five six.", "Seven eight nine. Ten."]
    assert told(text, 4) == ["One two three.", "Four five six.", "Seven eight nine.", "Ten."]
    assert told(text, 100) == [text]


def test_where_something_else_begins_there_is_a_cut() -> None:
    assert told("One two. Three. Four.", 100, breaks=[1]) == ["One two.", "Three. Four."]


def test_a_sentence_that_is_too_long_is_cut_between_words_and_a_word_between_letters() -> None:
    assert told("one two three four five six seven.", 4) == ["one two three four", "five six seven."]
    assert all(count(piece) <= 4 for piece in told("東京都港区芝公園四丁目二番八号東京タワー" * 3, 4))


@given(st.text(alphabet="ab cd.\n。x9", min_size=1, max_size=120), st.integers(2, 12))
def test_nothing_is_left_out_doubled_or_too_long(text: str, most: int) -> None:
    pieces = told(text, most)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(count(piece) <= most or len(piece) == 1 for piece in pieces)


def test_a_title_names_the_source_and_fits_however_long_that_is() -> None:
    assert title_of("Guide", 2, 3, "The\nsecond part.") == "Guide (2/3): The second part."
    assert len(title_of("ü" * 400, 2, 3, "x" * 200).encode()) <= 512
