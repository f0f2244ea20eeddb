"""Build the configured model. Imports a provider only if it is configured; makes no request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.kernel.errors import Misconfigured
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.features.llm.remote import Remote
    from holdfast.kernel.language_model import Model

URLS = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "ollama": "http://127.0.0.1:11434",
}
"""Default URLs."""
TRIES = 3
ANTHROPIC_VERSION = "2023-06-01"


def chosen(settings: Settings) -> Model | None:
    """Build the configured model; None if none is set. Raises Misconfigured for invalid settings."""
    match settings.llm:
        case "none":
            return None
        case "sampling":
            from holdfast.features.llm.sampling import Sampling

            return Sampling(settings.llm_model, settings.llm_timeout_secs)
        case "openai" | "anthropic" | "ollama":
            return _provider(settings)


def _provider(settings: Settings) -> Remote:
    from holdfast.features.llm import remote
    from holdfast.kernel.net.address import address, model
    from holdfast.kernel.net.http_client import Post

    if settings.llm_model is None:
        raise Misconfigured(f"llm is {settings.llm}, but llm_model is not set: set it to a model of the provider.")
    words = {"openai": remote.OPENAI, "anthropic": remote.ANTHROPIC, "ollama": remote.OLLAMA}[settings.llm]
    post = Post(
        address("llm", settings.llm_url or URLS[settings.llm]),
        settings="llm",
        headers=_headers(settings),
        timeout=settings.llm_timeout_secs,
        tries=TRIES,
    )
    return remote.Remote(post, model=model("llm", settings.llm_model, remote.LONGEST_MODEL), words=words)


def _headers(settings: Settings) -> dict[str, str]:
    from holdfast.kernel.net.address import bearer, key

    secret = key("llm", settings.llm_key)
    if settings.llm != "anthropic":
        return bearer(secret)
    return {"anthropic-version": ANTHROPIC_VERSION} | ({"x-api-key": secret} if secret else {})
