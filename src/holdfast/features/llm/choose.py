"""Build the configured model. Imports a provider only if it is configured; makes no request."""

from holdfast.kernel.language_model import Model
from holdfast.settings import Settings


def choose_model(settings: Settings) -> Model | None:
    """Build the configured model; None if none is set. Raises Misconfigured for invalid settings."""
    match settings.llm:
        case "none":
            return None
        case "sampling":
            from holdfast.features.llm.sampling import SamplingModel  # only with the setting

            return SamplingModel(settings.llm_model, settings.llm_timeout_secs)
        case "openai" | "anthropic" | "ollama":
            from holdfast.features.llm.remote import build_model  # an HTTP client: 34 modules, 16 ms

            return build_model(settings)
