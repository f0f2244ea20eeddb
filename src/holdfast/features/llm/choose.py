"""Build the configured model. Imports a provider only if it is configured; makes no request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.kernel.errors import InvalidSetting
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.features.llm.remote import RemoteModel
    from holdfast.kernel.language_model import Model

URLS = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "ollama": "http://127.0.0.1:11434",
}
"""Default URLs."""
MAX_TRIES = 3
ANTHROPIC_VERSION = "2023-06-01"


def choose_model(settings: Settings) -> Model | None:
    """Build the configured model; None if none is set. Raises Misconfigured for invalid settings."""
    match settings.llm:
        case "none":
            return None
        case "sampling":
            from holdfast.features.llm.sampling import SamplingModel

            return SamplingModel(settings.llm_model, settings.llm_timeout_secs)
        case "openai" | "anthropic" | "ollama":
            return _build_remote(settings)


def _build_remote(settings: Settings) -> RemoteModel:
    from holdfast.features.llm import remote
    from holdfast.kernel.net.http_client import JsonClient
    from holdfast.kernel.net.provider_settings import check_model_name, parse_provider_url

    if settings.llm_model is None:
        raise InvalidSetting(f"llm is {settings.llm}, but llm_model is not set: set it to a model of the provider.")
    words = {"openai": remote.OPENAI, "anthropic": remote.ANTHROPIC, "ollama": remote.OLLAMA}[settings.llm]
    post = JsonClient(
        parse_provider_url("llm", settings.llm_url or URLS[settings.llm]),
        settings="llm",
        headers=_build_headers(settings),
        timeout=settings.llm_timeout_secs,
        attempts=MAX_TRIES,
    )
    return remote.RemoteModel(
        post, model=check_model_name("llm", settings.llm_model, remote.MAX_MODEL_NAME), words=words
    )


def _build_headers(settings: Settings) -> dict[str, str]:
    from holdfast.kernel.net.provider_settings import bearer_header, check_key

    secret = check_key("llm", settings.llm_key)
    if settings.llm != "anthropic":
        return bearer_header(secret)
    return {"anthropic-version": ANTHROPIC_VERSION} | ({"x-api-key": secret} if secret else {})
