"""Serve HTTP, and MCP beside it, until told to stop."""

import asyncio
import socket
import sys
from types import FrameType

import uvicorn

from holdfast.app import Holdfast
from holdfast.kernel.errors import Misconfigured
from holdfast.settings import Settings
from holdfast.surfaces.http.app import build
from holdfast.surfaces.http.authentication import must_have_a_key
from holdfast.surfaces.http.tls import context_of

GRACE_SECONDS = 3
"""How long an answer that is under way may take once the server is told to stop."""
IDLE_SECONDS = 30
"""How long a connection stays open between two requests: longer than clients keep theirs, who would otherwise send the
next request just when it is closed."""


def serve(settings: Settings, holdfast: Holdfast) -> int:
    """Answer requests until SIGTERM or SIGINT; what is under way is finished, and uses are written down.

    The exit code is 0 then.
    """
    if must_have_a_key(holdfast):
        raise Misconfigured(
            f"{settings.host or 'Every address'} can be reached from other machines, and there is no key: "
            "make one with `holdfast keys create NAME`, or serve on 127.0.0.1."
        )
    if settings.quorum_writes or settings.quorum_peers:
        from holdfast.features.sync.quorum.service import must_be_set

        must_be_set(settings.quorum_writes, settings.quorum_peers)
        if settings.quorum_timeout_ms >= settings.timeout_secs * 1000:
            raise Misconfigured("quorum_timeout_ms: less than timeout_secs, within which a request must be answered.")
    if settings.sync_peers:
        from holdfast.features.sync import daemon

        daemon.must_be_set(settings.sync_peers, holdfast.hold.access)
    tls = context_of(settings)
    from holdfast.surfaces.mcp.streamable import endpoint

    app = build(holdfast, endpoint(holdfast))
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
    listening = listen(settings.host, settings.port)
    greeting = f"Holdfast serves {holdfast.hold.store.path} on {url_of(listening, 'https' if tls else 'http')}"
    Server(config, app.state.closing, greeting).run([listening])
    return 0


def listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise Misconfigured(f"{host}:{port} cannot be served on: {error.strerror or error}.") from None


def url_of(listening: socket.socket, scheme: str = "http") -> str:
    host, port = listening.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class Server(uvicorn.Server):
    """uvicorn, told once where it listens, that ends with success when it is asked to end."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event, greeting: str) -> None:
        super().__init__(config)
        self._closing = closing
        self._greeting = greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self._greeting, file=sys.stderr, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Event streams would never end by themselves: they are told first."""
        self._closing.set()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Not noted as captured: uvicorn would raise the signal again at the end, and so end without success."""
        self.force_exit = self.should_exit
        self.should_exit = True
