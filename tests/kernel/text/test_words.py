"""Words of a text, and letter similarity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.text.similarity import letter_similarity
from holdfast.kernel.text.words import MAX_TERMS, fold_name, query_words, split_words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("When do WE deploy?", ["when", "do", "we", "deploy"]),
        ("snake_case C++ 50%", ["snake", "case", "c", "50"]),
        ("in\u200bvisible \u202eturned", ["invisible", "turned"]),
        ("Ünïcode 日本語", ["ünïcode", "日本語"]),
        ('" * ( NEAR(', ["near"]),
        ("\ud800\x00", []),
        ("", []),
    ],
    ids=["sentence", "code", "invisible", "unicode", "operators", "garbage", "empty"],
)
def test_words_are_the_runs_of_letters_and_digits(text: str, found: list[str]) -> None:
    assert split_words(text) == found


def test_a_query_has_its_content_words_once_each() -> None:
    assert query_words("When do we deploy, and what do we deploy?") == ["deploy"]


def test_a_query_of_only_common_words_has_all_of_them() -> None:
    assert query_words("who are you") == ["who", "are", "you"]


def test_the_number_of_query_words_is_limited() -> None:
    assert query_words(" ".join(f"word{n}" for n in range(200))) == [f"word{n}" for n in range(MAX_TERMS)]


@pytest.mark.parametrize(
    ("one", "other"), [("Ada  Lovelace", "ada lovelace"), ("STRASSE", "straße"), ("Ａｄａ", "ada"), (" Ada\t", "ada")]
)
def test_names_are_compared_without_case_width_and_spaces(one: str, other: str) -> None:
    assert fold_name(one) == fold_name(other)


def test_different_names_stay_different() -> None:
    assert len({fold_name(name) for name in ("Ada", "Ida", "Ada L", "AdaL", "Ádá")}) == 5


def test_letter_similarity_is_the_share_of_common_trigrams() -> None:
    assert letter_similarity("we deploy on Tuesdays", "We deploy, on tuesdays!") == 1.0
    assert letter_similarity("abc", "abd") == 1 / 3
    assert letter_similarity("we deploy", "lunch is at noon") == 0.0


def test_letter_similarity_separates_rewordings_from_other_statements() -> None:
    same = "The database password is rotated monthly and kept in the vault under ops/db."
    assert letter_similarity("The database password rotates monthly and is kept in the vault under ops/db.", same) > 0.9
    assert letter_similarity("We deploy on Tuesdays.", "We deploy on Wednesdays.") < 0.8
    assert letter_similarity("Postgres runs on port 5432", "Redis runs on port 6379") < 0.6


@given(st.text(), st.text())
def test_letter_similarity_is_symmetric_between_0_and_1_and_1_for_equal_texts(a: str, b: str) -> None:
    assert letter_similarity(a, b) == letter_similarity(b, a)
    assert 0.0 <= letter_similarity(a, b) <= 1.0
    assert letter_similarity(a, a) == 1.0
