"""Language detection by script and common words; None if uncertain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.text.language import detect_language


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("shallow copy", "en"),
        ("Can you please make a shallow copy of the list?", "en"),
        ("Wir brauchen Hilfe", "de"),
        ("Was ist das?", "de"),
        ("y and y are the same y", "en"),
        ("Quiero pan y queso", "es"),
        ("¿Dónde está la biblioteca?", "es"),
        ("Où est la gare ?", "fr"),
        ("Preciso de ajuda com o computador", "pt"),
        ("Ho bisogno di aiuto con il computer", "it"),
        ("Ik heb hulp nodig met de computer", "nl"),
        ("Jag behöver hjälp med datorn", "sv"),
        ("Jeg har brug for hjælp, og det er ikke godt", "da"),
        ("Potrzebuję pomocy, to jest ważne", "pl"),
        ("Bana yardım eder misin lütfen", "tr"),
        ("日本語で答えてください", "ja"),
        ("请帮助我", "zh"),
        ("한국어로 답해 주세요", "ko"),
        ("Что это такое, объясни", "ru"),
        ("Де її книга?", "uk"),
        ("مرحبا كيف حالك", "ar"),
    ],
)
def test_a_language_is_detected_by_its_script_or_its_common_words(text: str, code: str) -> None:
    assert detect_language(text) == code


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ok",
        "42 + 7",
        "deploy",
        "die die die",
        "a la carte",
        "git commit -m der",
        "I drove from Los Angeles con una amiga to see the show",
        "I flew to Los Angeles con una mochila",
        "Los Angeles",
        "Is y defined?",
        "plot y",
        "sum(x, y)",
        "def f(y): return y",
        "https://x.y",
        "z w",
        "Привет",
    ],
)
def test_an_ambiguous_text_has_no_language(text: str) -> None:
    assert detect_language(text) is None


@given(st.text(max_size=200))
def test_any_text_has_a_language_or_none(text: str) -> None:
    assert detect_language(text) is None or len(detect_language(text) or "") == 2
