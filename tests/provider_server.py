"""A fake provider on a real socket, with scripted answers."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple


class ReceivedRequest(NamedTuple):
    """A received request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    raw: bytes = b""


class Handler(BaseHTTPRequestHandler):
    """One connection to the provider."""

    server: "Provider"

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        raw = self.rfile.read(length)
        asked = ReceivedRequest(self.path, dict(self.headers), json.loads(raw), raw)
        self.server.asked.append(asked)
        # The client may have disconnected.
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
        """Suppress logging."""


Behaviour = Callable[[Handler, ReceivedRequest], None]


class Provider(ThreadingHTTPServer):
    """A server that records its requests."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, behave: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behave = behave
        self.asked: list[ReceivedRequest] = []
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
