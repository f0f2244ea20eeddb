"""What a model promises. Everything above speaks only this."""

from typing import NamedTuple, Protocol

from holdfast.kernel.prompt import Prompt

__all__ = ["Completion", "Model", "Prompt"]


class Completion(NamedTuple):
    """What a model said, and what it took."""

    text: str
    model: str
    """Who answered: a provider may choose another than the one that was asked."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Those of the input that the provider had in its cache."""


class Model(Protocol):
    """Answers prompts. Any number of threads may ask it at once."""

    @property
    def name(self) -> str:
        """What answers are kept under: those of two models are never mixed."""

    @property
    def provider(self) -> str:
        """As which the settings choose it."""

    @property
    def host(self) -> str | None:
        """Where it is; None if that is the client's own business."""

    @property
    def remote(self) -> bool:
        """Whether texts leave this machine's process."""

    def must_be_ready(self) -> None:
        """Raise ModelFailed if it is known beforehand that nothing can be asked now."""

    def complete(self, prompt: Prompt, *, most_tokens: int) -> Completion:
        """What the model says to a prompt, in at most so many tokens. Raises ModelFailed if it cannot."""
