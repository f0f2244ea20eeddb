"""Serve HTTP and MCP until a signal arrives."""

import asyncio
import socket
import sys
from types import FrameType

import uvicorn

from holdfast.app import Holdfast
from holdfast.features.sync import daemon
from holdfast.features.sync.quorum.service import validate_settings as validate_quorum_settings
from holdfast.kernel.errors import InvalidSetting
from holdfast.settings import Settings
from holdfast.surfaces.http.app import build_app
from holdfast.surfaces.http.authentication import lacks_credentials
from holdfast.surfaces.http.tls import make_tls_context
from holdfast.surfaces.mcp.streamable import endpoint

GRACE_SECONDS = 3
"""Longest wait for running requests at shutdown."""
IDLE_SECONDS = 30
"""How long an idle connection stays open: longer than clients keep theirs, which could otherwise send a request on a
connection that is just being closed."""


def serve(settings: Settings, holdfast: Holdfast) -> int:
    """Serve until SIGTERM or SIGINT; then finish running requests, flush access counts and return 0."""
    if lacks_credentials(holdfast):
        raise InvalidSetting(
            f"{settings.host or 'Every address'} is reachable from other machines, but there is no key: "
            "create one with `holdfast agents key create NAME`, or serve on 127.0.0.1."
        )
    if settings.quorum_writes or settings.quorum_peers:
        validate_quorum_settings(settings.quorum_writes, settings.quorum_peers)
        if settings.quorum_timeout_ms >= settings.timeout_secs * 1000:
            raise InvalidSetting("quorum_timeout_ms must be less than timeout_secs, the time limit of a request.")
    if settings.sync_peers:
        daemon.validate_settings(settings.sync_peers, holdfast.ctx.peer_credentials)
    tls = make_tls_context(settings)
    app = build_app(holdfast, endpoint(holdfast))
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=IDLE_SECONDS,
    )
    config.load()
    config.ssl = tls
    listening = open_socket(settings.host, settings.port)
    greeting = f"Holdfast serves {holdfast.ctx.store.path} on {url_of(listening, 'https' if tls else 'http')}"
    HttpServer(config, app.state.closing, greeting).run([listening])
    return 0


def open_socket(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise InvalidSetting(f"Cannot listen on {host}:{port}: {error.strerror or error}.") from None


def url_of(listening: socket.socket, scheme: str = "http") -> str:
    host, port = listening.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class HttpServer(uvicorn.Server):
    """A uvicorn server that prints its address at startup and exits with success on a signal."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event, greeting: str) -> None:
        super().__init__(config)
        self._closing = closing
        self._greeting = greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self._greeting, file=sys.stderr, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the event streams first: they never end on their own."""
        self._closing.set()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Do not record the signal: uvicorn would raise it again at exit, so the exit code would not be 0."""
        self.force_exit = self.should_exit
        self.should_exit = True
