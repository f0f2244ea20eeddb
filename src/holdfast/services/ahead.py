"""A question's vector, made while its words are looked up."""

from threading import Thread

from ..domain.vector import Vector
from ..embedding.port import Embedder


class Ahead:
    """Begun with a text that may turn out to be the wrong one: then it is made again, of the right one."""

    def __init__(self, embedder: Embedder, text: str) -> None:
        self._embedder = embedder
        self._text = text
        self._made: Vector | None = None
        self._failed: Exception | None = None
        self._thread = Thread(target=self._make, name="holdfast-question")
        self._thread.start()

    def _make(self) -> None:
        try:
            self._made = made(self._embedder, self._text)
        except Exception as error:  # noqa: BLE001 - raised where the vector is asked for
            self._failed = error

    def vector(self, text: str) -> Vector | None:
        """Of a text; None if the model does not know its words."""
        self._thread.join()
        if text != self._text:
            return made(self._embedder, text)
        if self._failed is not None:
            raise self._failed
        return self._made


def made(embedder: Embedder, text: str) -> Vector | None:
    """The vector of a text whose words the model knows."""
    if not embedder.reads(text):
        return None
    (vector,) = embedder.embed([text])
    return vector
