"""Run applications for tests: in this process, or behind a real socket."""

import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.testclient import TestClient

from holdfast import Holdfast
from holdfast.operations import REGISTRY, Operation
from holdfast.surfaces.http.app import build_app

LOCAL = "http://127.0.0.1:9077"


def with_settings(hold: Holdfast, **settings: Any) -> Holdfast:
    """Return the same store with other settings."""
    return Holdfast(hold.ctx, replace(hold.settings, **settings))


@contextmanager
def open_http_client(
    hold: Holdfast, operations: Iterable[Operation] = REGISTRY, **settings: Any
) -> Iterator[TestClient]:
    """Yield a client of the application in this process."""
    app = build_app(with_settings(hold, **settings), operations=operations)
    with TestClient(app, base_url=LOCAL, raise_server_exceptions=False) as client:
        yield client


@contextmanager
def serve_app(app: Starlette, port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Yield the URL of an application behind a real socket."""
    bound = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(app, log_level="warning", access_log=False, ws="none", timeout_graceful_shutdown=3)
    config.load()
    config.ssl = tls
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        app.state.closing.set()
        server.should_exit = True
        thread.join()


def store_over_http(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    """Store a memory over HTTP."""
    answer = client.post("/api/v1/memories", json={"title": "Deploy day", "content": "Tuesdays.", **fields})
    assert answer.status_code == 201, answer.text
    stored: dict[str, Any] = answer.json()
    return stored
