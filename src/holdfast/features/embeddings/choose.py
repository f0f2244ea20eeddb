"""Choose the embedder from the settings. Imports only the chosen one; loads and calls nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.kernel.vector import MAX_MODEL_CHARS
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.features.embeddings.remote import RemoteEmbedder
    from holdfast.kernel.embedder import Embedder

OPENAI_DEFAULTS = ("https://api.openai.com/v1", "text-embedding-3-small")
OLLAMA_DEFAULTS = ("http://127.0.0.1:11434", "nomic-embed-text")
"""Default URL and model of each provider."""


def choose_embedder(settings: Settings) -> Embedder | None:
    """Return the configured embedder; None if embeddings are off. Raises Misconfigured for invalid settings."""
    match settings.embedder:
        case "none":
            return None
        case "minilm":
            from holdfast.features.embeddings.minilm import MiniLm

            return MiniLm()
        case "openai" | "ollama":
            return _make_provider(settings)


def _make_provider(settings: Settings) -> RemoteEmbedder:
    from holdfast.features.embeddings import remote
    from holdfast.kernel.net.http_client import JsonClient
    from holdfast.kernel.net.provider_settings import bearer_header, check_key, check_model_name, parse_provider_url

    url, name = OPENAI_DEFAULTS if settings.embedder == "openai" else OLLAMA_DEFAULTS
    words = remote.OPENAI_API if settings.embedder == "openai" else remote.OLLAMA_API
    post = JsonClient(
        parse_provider_url("embedding", settings.embedding_url or url),
        settings="embedding",
        headers=bearer_header(check_key("embedding", settings.embedding_key)),
        timeout=settings.embedding_timeout_secs,
    )
    return remote.RemoteEmbedder(
        post, model=check_model_name("embedding", settings.embedding_model or name, MAX_MODEL_CHARS), api=words
    )
