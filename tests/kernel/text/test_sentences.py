"""Sentences are where they are, and nothing that is said lies outside of them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.text.sentences import sentences


def told(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


def test_a_text_is_cut_where_its_sentences_end() -> None:
    text = 'It works. Does it? "Yes!" she said.\nA new line\n\nNext paragraph … and on. End'
    assert told(text) == [
        "It works.",
        "Does it?",
        '"Yes!"',
        "she said.",
        "A new line",
        "Next paragraph …",
        "and on.",
        "End",
    ]


def test_an_abbreviation_ends_no_sentence() -> None:
    assert told("Dr. Babbage met J. Smith, e.g. at 3.5 km. They spoke.") == [
        "Dr. Babbage met J. Smith, e.g. at 3.5 km.",
        "They spoke.",
    ]


def test_sentences_without_blanks_between_them_are_told_apart() -> None:
    assert told("会議は十時です。場所は東京。") == ["会議は十時です。", "場所は東京。"]


@given(st.text(alphabet="ab. \n!。?\t", max_size=60))
def test_everything_but_blanks_lies_in_one_sentence_and_in_order(text: str) -> None:
    spans = sentences(text)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert "".join("".join(told(text)).split()) == "".join(text.split())
