"""Sentences have exact positions and cover the whole text."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.text.sentences import split_sentences


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text)]


def test_a_text_is_split_at_sentence_ends() -> None:
    text = 'It works. Does it? "Yes!" she said.\nA new line\n\nNext paragraph … and on. End'
    assert split(text) == [
        "It works.",
        "Does it?",
        '"Yes!"',
        "she said.",
        "A new line",
        "Next paragraph …",
        "and on.",
        "End",
    ]


def test_an_abbreviation_does_not_end_a_sentence() -> None:
    assert split("Dr. Babbage met J. Smith, e.g. at 3.5 km. They spoke.") == [
        "Dr. Babbage met J. Smith, e.g. at 3.5 km.",
        "They spoke.",
    ]


def test_sentences_without_spaces_between_them_are_separated() -> None:
    assert split("会議は十時です。場所は東京。") == ["会議は十時です。", "場所は東京。"]


@given(st.text(alphabet="ab. \n!。?\t", max_size=60))
def test_every_non_space_character_is_in_one_sentence_in_order(text: str) -> None:
    spans = split_sentences(text)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert "".join("".join(split(text)).split()) == "".join(text.split())
