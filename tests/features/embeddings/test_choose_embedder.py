"""The settings choose an embedder; invalid ones are refused without repeating a secret."""

from typing import Any

import pytest

from holdfast.app import choose_embedder
from holdfast.features.embeddings.minilm import MiniLm
from holdfast.kernel.errors import InvalidSetting
from holdfast.settings import Settings, load


def test_the_bundled_model_is_the_default() -> None:
    assert isinstance(choose_embedder(load({}, {})), MiniLm)


def test_embeddings_can_be_turned_off() -> None:
    assert choose_embedder(Settings(embedder="none")) is None


@pytest.mark.parametrize(("embedder", "model"), [("openai", "text-embedding-3-small"), ("ollama", "nomic-embed-text")])
def test_a_provider_needs_only_its_name(embedder: Any, model: str) -> None:
    found = choose_embedder(Settings(embedder=embedder))
    assert found
    assert (found.model, found.dim, found.remote) == (model, None, True)


def test_an_unknown_embedder_is_refused_and_the_choices_are_listed() -> None:
    with pytest.raises(InvalidSetting, match="embedder"):
        load({}, {"HOLDFAST_EMBEDDER": "word2vec"})


@pytest.mark.parametrize("seconds", ["0", "-1", "601", "nan", "soon"])
def test_an_invalid_timeout_is_refused(seconds: str) -> None:
    with pytest.raises(InvalidSetting, match="embedding_timeout_secs"):
        load({}, {"HOLDFAST_EMBEDDING_TIMEOUT_SECS": seconds})


@pytest.mark.parametrize(
    "url",
    [
        "hunter2",
        "ftp://hunter2",
        "http://",
        "https:///hunter2",
        "http://me:hunter2@host/v1",
        "http://hunter2@host/v1",
        "http://host/v1?key=hunter2",
        "http://host/v1#hunter2",
        "http://host:hunter2/v1",
        "http://host:99999/hunter2",
        "http://[hunter2/v1",
        "http://host/hunter2 x",
        "http://host/hunter2\r\nX: y",
        "http://hünter2.example/v1",
    ],
)
def test_an_unusable_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidSetting, match="embedding_url") as refused:
        choose_embedder(Settings(embedder="openai", embedding_url=url))
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize("key", ["hunter2\n", "hunter2\r\nX: y", "hünter2", "\x00hunter2"])
def test_an_unusable_key_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(InvalidSetting, match="embedding_key") as refused:
        choose_embedder(Settings(embedder="openai", embedding_key=key))
    assert "unter2" not in refused.value.message


@pytest.mark.parametrize("model", ["m" * 129, "a\nb", "a\x00b"])
def test_a_model_name_that_cannot_be_stored_is_refused(model: str) -> None:
    with pytest.raises(InvalidSetting, match="embedding_model"):
        choose_embedder(Settings(embedder="ollama", embedding_model=model))


def test_displayed_settings_contain_no_provider_key() -> None:
    settings = Settings(embedding_key="hunter2", embedding_url="https://me:hunter3@host/v1", embedding_model="m")
    assert "hunter" not in repr(settings)
    assert "embedding_model='m'" in repr(settings)
    assert "embedding_url='http://host/v1'" in repr(Settings(embedding_url="http://host/v1"))
