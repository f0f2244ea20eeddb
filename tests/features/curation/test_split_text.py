"""Splitting a text into atoms loses nothing."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.curation.split_memory import build_atom_title, split_into_atoms
from holdfast.kernel.text.token_count import count_tokens


def list_atom_texts(text: str, max_tokens: int, **more: object) -> list[str]:
    return [text[start:end] for start, end in split_into_atoms(text, max_tokens, **more)]  # type: ignore[arg-type]


def test_sentences_are_joined_while_they_fit() -> None:
    text = "One two three. Four five six.\n\nSeven eight nine. Ten."
    assert list_atom_texts(text, 9) == ["One two three. Four five six.", "Seven eight nine. Ten."]
    assert list_atom_texts(text, 4) == ["One two three.", "Four five six.", "Seven eight nine.", "Ten."]
    assert list_atom_texts(text, 100) == [text]


def test_a_new_topic_starts_a_new_atom() -> None:
    assert list_atom_texts("One two. Three. Four.", 100, breaks=[1]) == ["One two.", "Three. Four."]


def test_a_long_sentence_is_split_between_words_and_a_long_word_between_letters() -> None:
    assert list_atom_texts("one two three four five six seven.", 4) == ["one two three four", "five six seven."]
    assert all(count_tokens(piece) <= 4 for piece in list_atom_texts("東京都港区芝公園四丁目二番八号東京タワー" * 3, 4))


@given(st.text(alphabet="ab cd.\n。x9", min_size=1, max_size=120), st.integers(2, 12))
def test_atoms_cover_the_text_once_within_the_limit(text: str, most: int) -> None:
    pieces = list_atom_texts(text, most)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(count_tokens(piece) <= most or len(piece) == 1 for piece in pieces)


def test_a_title_names_the_source_and_is_truncated() -> None:
    assert build_atom_title("Guide", 2, 3, "The\nsecond part.") == "Guide (2/3): The second part."
    assert len(build_atom_title("ü" * 400, 2, 3, "x" * 200).encode()) <= 512
