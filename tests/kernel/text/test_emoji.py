"""Emoji as words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.text.words import emoji_words, to_emoji


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("We had cake 🎉!", ["🎉"]),
        ("☕️ and ☕", ["☕", "☕"]),
        ("👍🏽", ["👍"]),
        ("👩‍💻", ["👩", "💻"]),
        ("from 🇫🇷🇩🇪", ["🇫🇷", "🇩🇪"]),
        ("✅ done, ❌ not", ["✅", "❌"]),
        ("東京🗼", ["🗼"]),
        ("1️⃣ → © ½ ❶ é ─", []),
    ],
)
def test_every_emoji_has_a_name_that_decodes_to_it(text: str, signs: list[str]) -> None:
    assert list(map(to_emoji, emoji_words(text))) == signs


@given(st.text())
def test_an_emoji_name_is_one_word_of_plain_letters_and_digits(text: str) -> None:
    assert all(name.isascii() and name.isalnum() for name in emoji_words(text))


@given(st.text(st.characters(max_codepoint=0x22FF)))
def test_other_text_has_no_emoji_names_and_is_unchanged(text: str) -> None:
    assert (emoji_words(text), to_emoji(text)) == ([], text)
