"""Classification of two texts: duplicates, updates, conflicts and others."""

import pytest

from benchmarks.near_duplicates import Part, measure_part
from holdfast.kernel.storage.index_terms import encode_terms, text_hashes
from holdfast.kernel.text.similarity import compare, compare_titled, find_echoes, have_distinct_subjects

LONG = "The session tokens are kept in the cookie header of every reply and rotated nightly. "


@pytest.mark.parametrize("part", ["tuned", "held out"])
def test_near_duplicates_are_detected_with_a_precision_of_95_percent_and_a_recall_of_90(part: Part) -> None:
    figures = measure_part(part)
    assert figures.precision >= 0.95
    assert figures.recall >= 0.90
    assert figures.found >= 0.95
    assert figures.agreed >= 0.90


@pytest.mark.parametrize(
    ("old", "new", "relation"),
    [
        ("Anna likes tea", "Ben likes tea", "other"),
        ("The server listens on port 8080", "The server listens on port 9090", "conflict"),
        ("The server listens on port 8080", "The server now listens on port 9090", "update"),
        ("x < 5 holds for all inputs", "x > 5 holds for all inputs", "conflict"),
        ("It is -5 degrees outside", "It is 5 degrees outside", "conflict"),
        ("Python 3.10 is required here", "Python 3.1 is required here", "conflict"),
        ("The timeout is 90 seconds", "The timeout is 1.5 minutes", "near"),
        ("We code in C++ at work", "We code in C at work", "other"),
        ("Café au lait at noon", "Cafe\u0301 au lait at noon", "same"),
        ("Ｆｕｌｌ width letters", "full width letters", "same"),
        ("", "", "same"),
        ("Something", "", "other"),
    ],
)
def test_two_texts_are_classified_as_a_reader_would(old: str, new: str, relation: str) -> None:
    assert compare(old, new).relation == relation


def test_a_text_containing_all_of_another_and_more_is_an_update() -> None:
    more = LONG + "The signing keys are rotated every quarter."
    assert (compare(LONG, more).relation, compare(more, LONG).relation) == ("update", "near")


def test_a_replaced_name_makes_a_long_text_a_different_one() -> None:
    said = (
        LONG
        + "The keys lie with {} in the archive, behind the second shelf, in a box that nobody else may open at night."
    )
    assert compare(said.format("Anna"), said.format("Boris")).relation == "other"
    assert compare(said.format("Anna"), said.format("Anna")).relation == "same"


def test_unrelated_texts_of_any_length_are_compared_quickly() -> None:
    one, other = (" ".join(f"{letter}{number:x}qz" for number in range(6000)) for letter in "ab")
    assert compare(one, other).relation == "other"


def test_equal_texts_under_titles_with_different_names_are_not_duplicates() -> None:
    said = "Likes green tea in the morning, with honey and some lemon."
    assert compare_titled("Anna's drink", said, "Ben's drink", said).relation == "other"
    assert compare_titled("Anna's drink", said, "The drink of Anna", said).relation == "same"


@pytest.mark.parametrize(
    ("old", "new", "apart"),
    [
        ("A", "B", False),
        ("Note 1", "Note 2", False),
        ("Coffee machine", "Dishwasher", True),
        ("Server A", "Server B", True),
        ("Release 2", "Release 3", True),
        ("Technician", "Where the technician is", False),
    ],
)
def test_titles_distinguish_what_they_name(old: str, new: str, apart: bool) -> None:
    said = "Broken since Monday, the technician is ordered for next week."
    assert have_distinct_subjects(old, new, said, strict=False) is apart


def test_a_text_that_only_repeats_recalled_texts_is_their_echo() -> None:
    recalled = [LONG, "Anna keeps the keys of the archive in the upper drawer."]
    new = "According to memory: " + LONG + recalled[1]
    assert find_echoes(recalled, new, ["tokens", "keys"]) == ["tokens", "keys"]


@pytest.mark.parametrize(
    "new",
    [
        LONG.replace("rotated", "never rotated"),
        LONG.replace("cookie", "session"),
        LONG + "Backups run at 3.",
        LONG.replace("nightly", "weekly"),
    ],
    ids=["denied", "exchanged", "added", "changed"],
)
def test_a_text_with_anything_else_is_not_an_echo(new: str) -> None:
    assert find_echoes([LONG], new, ["tokens"]) == []


def test_reordered_texts_share_all_bands_except_the_first() -> None:
    one, other = (
        text_hashes("n", encode_terms("", text, "[]"))
        for text in ("Keys rotate nightly. Tokens live in cookies.", "Tokens live in cookies. Keys rotate nightly.")
    )
    assert (one[0] != other[0], one[1:] == other[1:]) == (True, True)


def test_texts_without_words_are_similar_only_if_equal() -> None:
    assert compare("?", " ? ").relation == "same"
    assert compare("?", "!").relation == "other"
