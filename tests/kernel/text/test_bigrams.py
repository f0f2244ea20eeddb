"""Bigrams of scripts without blanks between words."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.kernel.text.words import HANGUL, UNSEGMENTED, emoji_words, index_bigrams, may_lack_blanks, terms

LETTERS = re.findall(f"[{UNSEGMENTED}{HANGUL}]", "".join(map(chr, range(0x110000))))
MIXED = st.text(st.characters(codec="utf-8") | st.sampled_from(LETTERS))


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("東京都に住む", "東京 京都 都に に住 住む"),
        ("我喜欢猫。", "我喜 喜欢 欢猫"),
        ("猫", "猫"),
        ("한국어 문서", "한국 국어 문서"),
        ("ภาษาไทย", "ภา าษ ษา าไ ไท ทย"),
        ("กำลังกิน", "กา าล ลง งก กน"),
        ("ພາສາລາວ", "ພາ າສ ສາ າລ ລາ າວ"),
        ("ﾃﾞｰﾀ", "デー ータ"),
        ("使用Docker部署", "使用 docker 部署"),
        ("We met 田中 in Berlin", "田中"),
    ],
    ids=["japanese", "chinese", "alone", "korean", "thai", "thai-marks", "lao", "half-width", "joined", "quoted"],
)
def test_text_without_spaces_between_words_is_indexed_as_overlapping_pairs(text: str, pairs: str) -> None:
    found = dict.fromkeys(index_bigrams(text).split())
    assert [term for term in found if len(term) > 1 or term == text] == pairs.split()


def test_a_character_that_can_be_a_word_is_indexed_alone_too() -> None:
    assert "猫" in index_bigrams("我喜欢猫。").split()


@pytest.mark.parametrize(
    "text", ["", " ", "We deploy on Tuesdays.", "Ünïcode, Straße", "привет", "שלום", "مرحبا", "नमस्ते", "\x00", "\u0301"]
)
def test_a_text_with_spaces_between_words_has_no_bigrams(text: str) -> None:
    assert index_bigrams(text) == ""


def test_every_character_of_scripts_without_spaces_is_recognised() -> None:
    assert [letter for letter in LETTERS if not may_lack_blanks(f"a {letter}")] == []


@pytest.mark.parametrize("text", ["plain", "“quotes” – dashes → arrows…", "🙂✅️", "Straße", "привет"])
def test_characters_of_other_scripts_are_not_split(text: str) -> None:
    assert not may_lack_blanks(text)


def test_a_part_of_a_sentence_has_the_same_bigrams_as_in_the_sentence() -> None:
    assert set(index_bigrams("東京都").split()) <= set(index_bigrams("去年から東京都に住んでいます").split())


@given(MIXED)
@example("🅰🅰")
def test_bigrams_are_at_most_twelve_times_as_long_as_their_text(text: str) -> None:
    """Letters are at most eight times as long; an emoji is a word with a number of up to six digits."""
    assert len(index_bigrams(text)) <= 12 * len(text)


def test_a_character_is_indexed_as_at_most_two_characters() -> None:
    assert [letter for letter in LETTERS if any(len(term) > 2 for term in index_bigrams(letter).split())] == []


@given(MIXED)
def test_a_query_in_words_of_a_text_has_the_bigrams_of_that_text(text: str) -> None:
    assert {term for term in index_bigrams(text).split() if len(term) > 1} <= {*terms(text), *emoji_words(text)}


@given(MIXED)
def test_a_term_contains_no_full_text_query_syntax(text: str) -> None:
    assert [term for term in terms(text) if not term or re.search(r"""[\s"'*^:()+\-{}\[\],.\x00]""", term)] == []
