"""A provider of vectors behind a real socket, which answers as a test wants it to."""

from collections.abc import Sequence
from hashlib import shake_128
from typing import Any

from provider_server import Asked, Behaviour, Handler, Provider, provider

__all__ = [
    "DIM",
    "Asked",
    "Behaviour",
    "Handler",
    "Provider",
    "as_ollama",
    "as_openai",
    "honest",
    "numbers",
    "provider",
]

DIM = 8


def numbers(text: str) -> list[float]:
    """What this provider's model makes of a text: always the same, and not of length one."""
    return [byte - 127.5 for byte in shake_128(text.encode()).digest(DIM)]


def as_openai(vectors: Sequence[Sequence[float]]) -> dict[str, Any]:
    """An answer as OpenAI gives it, the last row first."""
    rows = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    return {"object": "list", "data": rows[::-1], "model": "m", "usage": {"total_tokens": 1}}


def as_ollama(vectors: Sequence[Sequence[float]]) -> dict[str, Any]:
    return {"model": "m", "embeddings": vectors, "total_duration": 1}


def honest(handler: Handler, asked: Asked) -> None:
    """Answer as the path says; nothing that providers refuse is taken."""
    texts = asked.body["input"]
    assert 1 <= len(texts) <= 64
    assert all(text.strip() for text in texts)
    vectors = [numbers(text) for text in texts]
    handler.reply(as_ollama(vectors) if asked.path == "/v1/api/embed" else as_openai(vectors))
