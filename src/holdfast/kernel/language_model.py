"""The language model port."""

from typing import NamedTuple, Protocol

from holdfast.kernel.prompt import Prompt

__all__ = ["Completion", "Model", "Prompt"]


class Completion(NamedTuple):
    """A model's answer and its token counts."""

    text: str
    model: str
    """The model that answered: a provider may choose another than requested."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Input tokens that the provider read from its cache."""


class Model(Protocol):
    """Answers prompts. Thread-safe."""

    @property
    def name(self) -> str:
        """Name under which answers are cached: answers of two models are never mixed."""

    @property
    def provider(self) -> str:
        """Its value of the setting `llm`."""

    @property
    def host(self) -> str | None:
        """Host of the provider; None if the client decides."""

    @property
    def remote(self) -> bool:
        """Whether texts leave this process."""

    def require_ready(self) -> None:
        """Raise ModelFailed if a request would certainly fail now."""

    def complete(self, prompt: Prompt, *, max_tokens: int) -> Completion:
        """Answer a prompt in at most `max_tokens` tokens. Raises ModelFailed."""
