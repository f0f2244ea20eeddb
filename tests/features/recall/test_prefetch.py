"""The query is embedded while its words are looked up; the result is always that of the final text."""

from collections.abc import Sequence
from threading import current_thread, main_thread

import pytest

from holdfast.features.recall.query import QueryEmbedding
from holdfast.kernel.errors import EmbedderFailed
from holdfast.kernel.vector import Vector, unit_vector


class Letters:
    """Embeds a text as its counts of `a` and `b`."""

    model, dim, remote, is_loaded = "letters", 2, False, True

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []

    def can_embed(self, text: str) -> bool:
        return bool(set(text) & set("ab"))

    def warm(self) -> None:
        """Do nothing: there is nothing to load."""

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += [(text, current_thread() is main_thread()) for text in texts]
        if "!" in texts[0]:
            raise EmbedderFailed("It does not like exclamation marks.")
        return [unit_vector([text.count("a"), text.count("b")]) for text in texts]


def test_a_prefetched_embedding_is_reused_for_the_same_text() -> None:
    letters = Letters()
    with QueryEmbedding() as ahead:
        ahead.start(letters, "aab")
        assert ahead.get_vector(letters, "aab") == unit_vector([2, 1])
    assert letters.asked == [("aab", False)]


def test_another_text_is_embedded_again() -> None:
    letters = Letters()
    with QueryEmbedding() as ahead:
        ahead.start(letters, "aab")
        assert ahead.get_vector(letters, "b") == unit_vector([0, 1])
    assert letters.asked == [("aab", False), ("b", True)]


def test_a_text_without_known_words_has_no_embedding() -> None:
    with QueryEmbedding() as ahead:
        ahead.start(Letters(), "zzz")
        assert ahead.get_vector(Letters(), "zzz") is None


def test_an_embedding_error_is_raised_when_the_embedding_is_requested() -> None:
    letters = Letters()
    with QueryEmbedding() as ahead:
        ahead.start(letters, "a!")
        with pytest.raises(EmbedderFailed, match="exclamation"):
            ahead.get_vector(letters, "a!")
        assert ahead.get_vector(letters, "a") == unit_vector([1, 0]), "a failure of the wrong text is nobody's"


def test_a_started_embedding_finishes_when_the_caller_fails() -> None:
    letters = Letters()

    def fail() -> None:
        with QueryEmbedding() as ahead:
            ahead.start(letters, "ab")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert letters.asked == [("ab", False)]
