"""The embedder port."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.kernel.vector import Vector


class Embedder(Protocol):
    """Computes embeddings of texts. Thread-safe."""

    @property
    def model(self) -> str:
        """Model name, stored with every vector: vectors of two models are never compared."""

    @property
    def dim(self) -> int | None:
        """Dimension of the vectors; None until the provider has answered once. Constant afterwards."""

    @property
    def remote(self) -> bool:
        """Whether texts leave this process, so that a request can be slow or fail."""

    @property
    def is_loaded(self) -> bool:
        """Whether `embed` can start at once; otherwise `warm` saves time."""

    def can_embed(self, text: str) -> bool:
        """Whether the model knows enough words of a text for its vector to be meaningful."""

    def warm(self) -> None:
        """Start loading the model in the background; return at once."""

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in order, also for an empty text. Raises EmbedderFailed."""
