"""What an embedder promises. Everything above speaks only this."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.kernel.vector import Vector


class Embedder(Protocol):
    """Makes vectors of texts. Any number of threads may ask it at once."""

    @property
    def model(self) -> str:
        """What is kept beside every vector: those of two models are never compared."""

    @property
    def dim(self) -> int | None:
        """How many numbers a vector has; None until a provider has answered. It does not change after that."""

    @property
    def remote(self) -> bool:
        """Whether texts leave this process, and a vector may take long or not come at all."""

    def reads(self, text: str) -> bool:
        """Whether the model knows enough of a text's words for its vector to mean something."""

    def warm(self) -> None:
        """Begin what the first vector would wait for, and return at once."""

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of each text, in their order; an empty text has one too. Raises EmbedderFailed if it cannot."""
