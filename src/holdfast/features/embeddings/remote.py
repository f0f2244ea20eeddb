"""Embedding providers over HTTP: OpenAI-compatible ones and Ollama. Every response is checked."""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import EmbedderFailed, Invalid
from holdfast.kernel.net.failure import RequestFailure
from holdfast.kernel.net.http_client import JsonClient
from holdfast.kernel.net.provider_settings import bearer_header, check_key, check_model_name, parse_provider_url
from holdfast.kernel.vector import MAX_MODEL_CHARS, Vector, unit_vector
from holdfast.settings import Settings

OPENAI_DEFAULTS = ("https://api.openai.com/v1", "text-embedding-3-small")
OLLAMA_DEFAULTS = ("http://127.0.0.1:11434", "nomic-embed-text")
"""Default URL and model of each provider."""
BATCH = 64
"""Texts per request."""
MAX_CHARACTERS = 4000
"""Maximum characters of a text; some models refuse longer ones."""


class ProviderApi(NamedTuple):
    """Request and response format of a provider."""

    path: str
    extra_fields: Mapping[str, str]
    decode: Callable[[bytes], list[list[float]]]


class _OpenAiRow(Struct):
    index: int
    embedding: list[float]


class _OpenAiReply(Struct):
    data: list[_OpenAiRow]


class _OllamaReply(Struct):
    embeddings: list[list[float]]


def _decode_openai(body: bytes) -> list[list[float]]:
    """Decode the vectors in order of their index; providers may return them in any order."""
    rows = sorted(msgspec.json.decode(body, type=_OpenAiReply).data, key=lambda row: row.index)
    if [row.index for row in rows] != list(range(len(rows))):
        raise msgspec.ValidationError("an index is missing or repeated")
    return [row.embedding for row in rows]


def _decode_ollama(body: bytes) -> list[list[float]]:
    return msgspec.json.decode(body, type=_OllamaReply).embeddings


OPENAI_API = ProviderApi("/embeddings", {"encoding_format": "float"}, _decode_openai)
OLLAMA_API = ProviderApi("/api/embed", {}, _decode_ollama)


class RemoteEmbedder:
    """A model of a provider. The first response fixes the dimension; other dimensions are refused."""

    remote = True
    is_loaded = True

    def __init__(self, post: JsonClient, *, model: str, api: ProviderApi) -> None:
        self.model = model
        self.dim: int | None = None
        self._post = post
        self._api = api
        self._lock = Lock()

    def can_embed(self, text: str) -> bool:
        return True

    def warm(self) -> None:
        """Do nothing: there is nothing to load."""

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        batches = (texts[start : start + BATCH] for start in range(0, len(texts), BATCH))
        return [vector for batch in batches for vector in self._embed_batch(batch)]

    def _embed_batch(self, texts: Sequence[str]) -> list[Vector]:
        request_body = {"model": self.model, "input": [_prepare_text(text) for text in texts], **self._api.extra_fields}
        vectors = self._decode_vectors(self._request(msgspec.json.encode(request_body)))
        if len(vectors) != len(texts):
            raise self._build_error(f"returned {len(vectors)} vectors for {len(texts)} texts")
        self._check_dimension(vectors)
        return vectors

    def _request(self, body: bytes) -> bytes:
        try:
            return self._post(self._api.path, body)
        except RequestFailure as failure:
            raise self._build_error(failure.reason, retryable=failure.retryable) from None

    def _decode_vectors(self, body: bytes) -> list[Vector]:
        try:
            return [unit_vector(row) for row in self._api.decode(body)]
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise self._build_error("returned no valid vectors") from None
        except Invalid as error:
            raise self._build_error(f"returned an invalid vector ({error.message})") from None

    def _check_dimension(self, vectors: Sequence[Vector]) -> None:
        with self._lock:
            found = {vector.dim for vector in vectors} | ({self.dim} if self.dim else set())
            if len(found) > 1:
                dims = " and ".join(map(str, sorted(found)))
                raise self._build_error(f"returned vectors of {dims} dimensions, which cannot be compared")
            self.dim = found.pop()

    def _build_error(self, problem: str, *, retryable: bool = False) -> EmbedderFailed:
        return EmbedderFailed(f"The embedding provider at {self._post.host} {problem}.", retryable=retryable)


def _prepare_text(text: str) -> str:
    """Shorten and clean a text for sending. A blank text becomes a full stop, because some providers refuse it."""
    sent = text[:MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
    return sent if sent.strip() else "."


def build_embedder(settings: Settings) -> RemoteEmbedder:
    """Build the embedder of the configured provider; makes no request."""
    url, name = OPENAI_DEFAULTS if settings.embedder == "openai" else OLLAMA_DEFAULTS
    words = OPENAI_API if settings.embedder == "openai" else OLLAMA_API
    post = JsonClient(
        parse_provider_url("embedding", settings.embedding_url or url),
        settings="embedding",
        headers=bearer_header(check_key("embedding", settings.embedding_key)),
        timeout=settings.embedding_timeout_secs,
    )
    return RemoteEmbedder(
        post, model=check_model_name("embedding", settings.embedding_model or name, MAX_MODEL_CHARS), api=words
    )
