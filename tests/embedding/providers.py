"""A provider of vectors behind a real socket, which answers as a test wants it to."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import shake_128
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple

DIM = 8


class Asked(NamedTuple):
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Handler(BaseHTTPRequestHandler):
    """One connection to the provider."""

    server: "Provider"

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        asked = Asked(self.path, dict(self.headers), json.loads(self.rfile.read(length)))
        self.server.asked.append(asked)
        # Whoever asks may have gone.
        with suppress(ConnectionError):
            self.server.behave(self, asked)

    def reply(self, body: bytes | object, status: int = 200, **headers: str) -> None:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(sent)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


Behaviour = Callable[[Handler, Asked], None]


class Provider(ThreadingHTTPServer):
    """A server that keeps what it was asked."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, behave: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behave = behave
        self.asked: list[Asked] = []
        self.closing = Event()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def provider(behave: Behaviour) -> Iterator[Provider]:
    with Provider(behave) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()


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
