"""An embedding provider behind a real socket, with scripted answers."""

from collections.abc import Sequence
from hashlib import shake_128
from typing import Any

from provider_server import Behaviour, Handler, Provider, ReceivedRequest, provider

__all__ = [
    "DIM",
    "Behaviour",
    "Handler",
    "Provider",
    "ReceivedRequest",
    "as_ollama",
    "as_openai",
    "honest",
    "numbers",
    "provider",
]

DIM = 8


def numbers(text: str) -> list[float]:
    """Embed a text deterministically, without normalising."""
    return [byte - 127.5 for byte in shake_128(text.encode()).digest(DIM)]


def as_openai(vectors: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Build an answer in OpenAI's format, last row first."""
    rows = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    return {"object": "list", "data": rows[::-1], "model": "m", "usage": {"total_tokens": 1}}


def as_ollama(vectors: Sequence[Sequence[float]]) -> dict[str, Any]:
    return {"model": "m", "embeddings": vectors, "total_duration": 1}


def honest(handler: Handler, asked: ReceivedRequest) -> None:
    """Answer by path, and refuse what real providers refuse."""
    texts = asked.body["input"]
    assert 1 <= len(texts) <= 64
    assert all(text.strip() for text in texts)
    vectors = [numbers(text) for text in texts]
    handler.reply(as_ollama(vectors) if asked.path == "/v1/api/embed" else as_openai(vectors))
