"""Index terms round-trip: every passage at its position, every stem as often as it occurs."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.index_terms import (
    EMPTY_TERMS,
    PassageTerms,
    count_terms,
    decode_terms,
    encode_terms,
    is_question,
    pad,
    split_passages,
)

PIECES = [
    *("run", "runs running", "a", "aa", "x1", "Ada: ", "\nBen Lee: ", "user: ", "[2026-01-04 10:00] ", "0\t1\t2", "-1"),
    *("\t", "\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\u00a0", "\u200b", "\ufeff", "  "),
    *(
        ". ",
        "? ",
        "?",
        "! ",
        "…",
        "。",
        "؟",
        '"',
        "'",
        "\\",
        "\\t",
        "\\n",
        "%",
        "{}",
        "_",
        "\x01",
        "\x7f",
        "\U0001f9e0",
    ),
    *("東京", "日本語", "ภาษาไทย", "한국어", "e\u0301", "ÀÉ", "ß", "İ", "\U00020000", "\ue000", "\u0301", "٣"),
]
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=120).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=300),
)
TAGS = st.lists(st.sampled_from(["x", "deploy", "日本語", "a\\tb"]), max_size=3).map(
    lambda tags: "[" + ",".join(f'"{tag}"' for tag in tags) + "]"
)


@given(TEXTS, TEXTS, TAGS)
def test_passages_are_decoded_as_they_were_split(title: str, content: str, tags: str) -> None:
    found = decode_terms(encode_terms(title, content, tags))
    assert [(line.begins, line.ends, line.speaker) for line in found.passages] == [
        tuple(passage) for passage in split_passages(content)
    ]
    assert found.is_question == is_question(content)


@given(TEXTS, TEXTS, TAGS)
def test_every_stem_is_counted_as_often_as_it_occurs_in_a_passage(title: str, content: str, tags: str) -> None:
    found = decode_terms(encode_terms(title, content, tags))
    anywhere = set(index_terms.index_tokens(f"{title} {content}")) | {"run", "a", "0", "1"}
    total = 0
    for line in found.passages:
        stems = index_terms.index_tokens(content[line.begins : line.ends])
        held = Counter(stems)
        assert {stem: line.stems.count(pad(stem)) for stem in anywhere} == {stem: held[stem] for stem in anywhere}
        assert line.stems.split() == stems
        total += len(stems)
    assert found.length == total == count_terms(encode_terms(title, content, tags))


@given(TEXTS, TEXTS)
def test_words_of_the_tags_and_extra_words_of_the_title_are_labels(title: str, content: str) -> None:
    labels = Counter(decode_terms(encode_terms(title, content, '["first","second tag"]')).labels.split())
    assert not Counter(index_terms.index_tokens('["first","second tag"]')) - labels
    assert title in content or not Counter(index_terms.index_tokens(title)) - labels
    without = decode_terms(encode_terms("", content, "[]")).labels.split()
    assert {*without} <= {*index_terms.index_tokens(content)}


@given(st.lists(st.sampled_from(["run", "ru", "unru", "r"]), min_size=1, max_size=30))
def test_a_repeated_word_is_counted_each_time_and_is_not_part_of_another(words: list[str]) -> None:
    (line,) = decode_terms(encode_terms("Title", " ".join(words), "[]")).passages
    assert {word: line.stems.count(pad(word)) for word in words} == Counter(words)


@pytest.mark.parametrize("content", ["", " \n\t ", "!!! ... ?", "\u200b"], ids=repr)
def test_a_text_without_words_is_encoded_too(content: str) -> None:
    found = decode_terms(encode_terms("Title", content, "[]"))
    assert (found.length, [line.stems for line in found.passages]) == (0, [""] * len(split_passages(content)))
    assert found.labels == " titl "


def test_each_line_of_a_transcript_has_its_speaker() -> None:
    text = "Ada: We ran.\nBen Lee: Far?\nAda: We run again?"
    found = decode_terms(encode_terms("Walk", text, '["out"]'))
    assert found.passages == [
        PassageTerms(5, 12, "Ada", " we  ran "),
        PassageTerms(22, 26, "Ben Lee", " far "),
        PassageTerms(32, len(text), "Ada", " we  run  again "),
    ]
    assert (found.is_question, found.length, found.labels) == (True, 6, " walk  out ")


def test_a_text_without_encoded_terms_has_no_terms() -> None:
    assert (decode_terms(""), count_terms("")) == (EMPTY_TERMS, 0)
