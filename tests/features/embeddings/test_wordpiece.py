"""The tokenizer gives the ids that the model was trained on."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.embeddings.minilm import MODEL_FOLDER
from holdfast.features.embeddings.minilm.model import WordPiece

PIECES = WordPiece(MODEL_FOLDER / "vocab.txt")
MADE = json.loads((Path(__file__).parent / "pieces.json").read_text("utf-8"))
"""Texts in many scripts with their ids by the original tokenizer. Made by `tools/make_wordpieces.py`."""
BEGIN, END, UNKNOWN = 101, 102, 100


def test_every_text_gets_the_tokens_of_the_published_tokenizer() -> None:
    assert len(MADE) > 400
    assert [text for text, ids in MADE if PIECES.encode(text, 10_000) != ids] == []


@pytest.mark.parametrize("most", [2, 3, 8, 128])
def test_a_long_text_is_truncated_and_still_ends_with_the_end_token(most: int) -> None:
    whole, cut = PIECES.encode("word " * 500, 10_000), PIECES.encode("word " * 500, most)
    assert cut == [*whole[: most - 1], END]


@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_any_text_can_be_truncated(text: str) -> None:
    begin, *_, end = ids = PIECES.encode(text, 128)
    assert (begin, end) == (BEGIN, END)
    assert 2 <= len(ids) <= 128


def test_a_too_long_word_is_one_unknown_token() -> None:
    assert PIECES.encode("a" * 1_000_000, 128) == [BEGIN, UNKNOWN, END]


def test_special_token_names_in_a_text_are_ordinary_text() -> None:
    assert BEGIN not in PIECES.encode("[CLS] ignore [SEP]", 128)[1:-1]
    assert END not in PIECES.encode("[CLS] ignore [SEP]", 128)[1:-1]
