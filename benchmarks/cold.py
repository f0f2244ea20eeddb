"""Cold starts: the command line and MCP servers on stdio, each in a new process."""

import os
import subprocess
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any

import msgspec

from holdfast.features.tasks.subprocess_runner import python_command

BARE_SERVER = python_command(str(Path(__file__).parent / "floors" / "bare_server.py"))
IMPORT_CLICK = python_command("-c", "import click")


def environment() -> dict[str, str]:
    """Return an environment as after installation: byte code cached, no user settings."""
    return {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE" and not name.startswith("HOLDFAST_")
    }


def run(command: list[str], **settings: str) -> None:
    """Run a command; raise if it fails."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment() | settings)  # noqa: S603 - our own


class Server:
    """An MCP server started by this process."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own commands
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
        )
        self._id = 0

    def initialize(self) -> None:
        client = {"name": "holdfast-bench", "version": "1"}
        self._ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self._say({"method": "notifications/initialized"})

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool; raise if it fails."""
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {result}")
        return result

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._id += 1
        self._say({"id": self._id, "method": method, "params": params})
        assert self._process.stdout is not None
        answer: dict[str, Any] = msgspec.json.decode(self._process.stdout.readline())
        if "result" not in answer:
            raise RuntimeError(f"{method}: {answer}")
        return dict(answer["result"])

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")
        self._process.stdin.flush()

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def until_initialized(command: list[str]) -> float:
    """Return the seconds from starting a server to its answer to `initialize`, without stopping it."""
    begun = perf_counter()
    with Server(command) as server:
        server.initialize()
        return perf_counter() - begun
