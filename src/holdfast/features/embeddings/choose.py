"""Choose the embedder from the settings. Imports only the chosen one; loads and calls nothing."""

from holdfast.features.embeddings.minilm import MiniLm
from holdfast.kernel.embedder import Embedder
from holdfast.settings import Settings


def choose_embedder(settings: Settings) -> Embedder | None:
    """Return the configured embedder; None if embeddings are off. Raises Misconfigured for invalid settings."""
    match settings.embedder:
        case "none":
            return None
        case "minilm":
            return MiniLm()
        case "openai" | "ollama":
            from holdfast.features.embeddings.remote import build_embedder  # an HTTP client: 34 modules, 14 ms

            return build_embedder(settings)
