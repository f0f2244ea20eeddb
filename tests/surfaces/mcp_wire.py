"""A client of the stdio loop that writes raw lines and reads the answers."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import holdfast
from holdfast.surfaces.mcp.answers import Answers
from holdfast.surfaces.mcp.stdio import StdioServer

Message = dict[str, Any]

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(id: Any, method: str, params: Message | None = None) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}


def notification(method: str, params: Message | None = None) -> Message:
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}


def initialize(id: Any = "init", version: str = "2025-11-25", client: str = "tester") -> Message:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": client, "version": "1"}}
    return request(id, "initialize", params)


def stateless(id: Any, method: str, params: Message | None = None, **meta: Any) -> Message:
    return request(id, method, {**(params or {}), "_meta": {**META, **meta}})


def call(id: Any, tool: str, arguments: Message | None = None, **params: Any) -> Message:
    return request(id, "tools/call", {"name": tool, "arguments": arguments or {}, **params})


class Client:
    """The client's end of the pipes."""

    def __init__(self, to: int, back: int) -> None:
        self._to = to
        self._back = os.fdopen(back, "rb")

    def send(self, *messages: Message | bytes) -> None:
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            view = memoryview(line + b"\n")
            while view:
                view = view[os.write(self._to, view) :]

    def reply(self) -> Message:
        line = self._back.readline()
        assert line, "the server said nothing more"
        found: Message = json.loads(line)
        return found

    def ask(self, message: Message | bytes) -> Message:
        self.send(message)
        return self.reply()

    def leave(self) -> None:
        if self._to >= 0:
            os.close(self._to)
            self._to = -1

    def stop_reading(self) -> None:
        """Stop reading, while the server continues."""
        self._back.close()

    def write(self, piece: bytes) -> None:
        os.write(self._to, piece)

    def rest(self) -> list[Message]:
        """Return everything written until the server ends."""
        self.leave()
        return [] if self._back.closed else [json.loads(line) for line in self._back]


@contextmanager
def connect_client(hold: holdfast.Holdfast, profile: str = "core") -> Iterator[Client]:
    """Run a loop in a thread of this process, over real pipes."""
    source, to = os.pipe()
    back, sink = os.pipe()
    loop = StdioServer(hold, Answers(hold, profile), source, sink)

    def run() -> None:
        try:
            loop.run()
        finally:
            os.close(sink)

    thread = threading.Thread(target=run)
    thread.start()
    client = Client(to, back)
    try:
        yield client
    finally:
        client.rest()
        thread.join()
        os.close(source)


@contextmanager
def connect_with_handshake(
    hold: holdfast.Holdfast, profile: str = "core", version: str = "2025-11-25"
) -> Iterator[Client]:
    """Yield a connection after its handshake."""
    with connect_client(hold, profile) as client:
        client.ask(initialize(version=version))
        client.send(notification("notifications/initialized"))
        yield client
