"""Embedding providers over HTTP: OpenAI-compatible ones and Ollama. Every response is checked."""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import EmbedderFailed, Invalid
from holdfast.kernel.net.failure import Failure
from holdfast.kernel.net.http_client import Post
from holdfast.kernel.vector import Vector, unit

BATCH = 64
"""Texts per request."""
MOST_CHARACTERS = 4000
"""Maximum characters of a text; some models refuse longer ones."""


class Words(NamedTuple):
    """Request and response format of a provider."""

    path: str
    also: Mapping[str, str]
    rows: Callable[[bytes], list[list[float]]]


class _Row(Struct):
    index: int
    embedding: list[float]


class _OpenAi(Struct):
    data: list[_Row]


class _Ollama(Struct):
    embeddings: list[list[float]]


def _of_openai(body: bytes) -> list[list[float]]:
    """Decode the vectors in order of their index; providers may return them in any order."""
    rows = sorted(msgspec.json.decode(body, type=_OpenAi).data, key=lambda row: row.index)
    if [row.index for row in rows] != list(range(len(rows))):
        raise msgspec.ValidationError("an index is missing or repeated")
    return [row.embedding for row in rows]


def _of_ollama(body: bytes) -> list[list[float]]:
    return msgspec.json.decode(body, type=_Ollama).embeddings


OPENAI = Words("/embeddings", {"encoding_format": "float"}, _of_openai)
OLLAMA = Words("/api/embed", {}, _of_ollama)


class Remote:
    """A model of a provider. The first response fixes the dimension; other dimensions are refused."""

    remote = True

    def __init__(self, post: Post, *, model: str, words: Words) -> None:
        self.model = model
        self.dim: int | None = None
        self._post = post
        self._words = words
        self._lock = Lock()

    def reads(self, text: str) -> bool:
        return True

    def warm(self) -> None:
        """Do nothing: there is nothing to load."""

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        batches = (texts[start : start + BATCH] for start in range(0, len(texts), BATCH))
        return [vector for batch in batches for vector in self._batch(batch)]

    def _batch(self, texts: Sequence[str]) -> list[Vector]:
        asked = {"model": self.model, "input": [_sent(text) for text in texts], **self._words.also}
        vectors = self._vectors(self._answer(msgspec.json.encode(asked)))
        if len(vectors) != len(texts):
            raise self._failed(f"returned {len(vectors)} vectors for {len(texts)} texts")
        self._must_fit(vectors)
        return vectors

    def _answer(self, asked: bytes) -> bytes:
        try:
            return self._post(self._words.path, asked)
        except Failure as failure:
            raise self._failed(failure.what, retryable=failure.retryable) from None

    def _vectors(self, body: bytes) -> list[Vector]:
        try:
            return [unit(row) for row in self._words.rows(body)]
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise self._failed("returned no valid vectors") from None
        except Invalid as error:
            raise self._failed(f"returned an invalid vector ({error.message})") from None

    def _must_fit(self, vectors: Sequence[Vector]) -> None:
        with self._lock:
            found = {vector.dim for vector in vectors} | ({self.dim} if self.dim else set())
            if len(found) > 1:
                dims = " and ".join(map(str, sorted(found)))
                raise self._failed(f"returned vectors of {dims} dimensions, which cannot be compared")
            self.dim = found.pop()

    def _failed(self, what: str, *, retryable: bool = False) -> EmbedderFailed:
        return EmbedderFailed(f"The embedding provider at {self._post.host} {what}.", retryable=retryable)


def _sent(text: str) -> str:
    """Shorten and clean a text for sending. A blank text becomes a full stop, because some providers refuse it."""
    sent = text[:MOST_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
    return sent if sent.strip() else "."
