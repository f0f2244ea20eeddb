"""Embed a query on a thread while its words are looked up."""

from _thread import allocate_lock, start_new_thread
from types import TracebackType
from typing import Self

from holdfast.kernel.embedder import Embedder
from holdfast.kernel.vector import Vector


class QueryEmbedding:
    """The embedding of a text, started early. If the text turns out to be another one, it is computed again.

    Leaving always waits for the thread: a process must not end while a model is loading. The thread is not one of
    `threading`, because starting such a thread waits until it runs, which takes long on a busy machine.
    """

    def __init__(self) -> None:
        self._running = allocate_lock()
        self._started_with: tuple[Embedder, str] | None = None
        self._computed: Vector | None = None
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, type: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._wait()

    def start(self, embedder: Embedder, text: str) -> None:
        """Start to embed a text and return at once."""
        self._started_with = embedder, text
        self._running.acquire()
        start_new_thread(self._compute, self._started_with)

    def _compute(self, embedder: Embedder, text: str) -> None:
        try:
            self._computed = embed_text(embedder, text)
        except Exception as error:  # noqa: BLE001 - raised by `get_vector`
            self._error = error
        finally:
            self._running.release()

    def get_vector(self, embedder: Embedder, text: str) -> Vector | None:
        """Return the embedding of a text; None if the model does not know its words."""
        self._wait()
        if self._started_with != (embedder, text):
            return embed_text(embedder, text)
        if self._error is not None:
            raise self._error
        return self._computed

    def _wait(self) -> None:
        with self._running:
            pass


def embed_text(embedder: Embedder, text: str) -> Vector | None:
    """Embed a text; None if the model does not know its words."""
    if not embedder.can_embed(text):
        return None
    (vector,) = embedder.embed([text])
    return vector
