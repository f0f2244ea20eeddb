"""Choose the embedder from the settings. Imports only the chosen one; loads and calls nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.kernel.vector import MOST_MODEL
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.features.embeddings.remote import Remote
    from holdfast.kernel.embedder import Embedder

OPENAI = ("https://api.openai.com/v1", "text-embedding-3-small")
OLLAMA = ("http://127.0.0.1:11434", "nomic-embed-text")
"""Default URL and model of each provider."""


def chosen(settings: Settings) -> Embedder | None:
    """Return the configured embedder; None if embeddings are off. Raises Misconfigured for invalid settings."""
    match settings.embedder:
        case "none":
            return None
        case "minilm":
            from holdfast.features.embeddings.minilm import MiniLm

            return MiniLm()
        case "openai" | "ollama":
            return _provider(settings)


def _provider(settings: Settings) -> Remote:
    from holdfast.features.embeddings import remote
    from holdfast.kernel.net.address import address, bearer, key, model
    from holdfast.kernel.net.http_client import Post

    url, name = OPENAI if settings.embedder == "openai" else OLLAMA
    words = remote.OPENAI if settings.embedder == "openai" else remote.OLLAMA
    post = Post(
        address("embedding", settings.embedding_url or url),
        settings="embedding",
        headers=bearer(key("embedding", settings.embedding_key)),
        timeout=settings.embedding_timeout_secs,
    )
    return remote.Remote(post, model=model("embedding", settings.embedding_model or name, MOST_MODEL), words=words)
