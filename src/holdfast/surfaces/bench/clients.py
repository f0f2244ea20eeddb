"""Benchmark clients for each surface: library, `holdfast serve`, and command line."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from holdfast import app, settings
from holdfast.features.recall.quality.measure import Client
from holdfast.features.tasks.subprocess_runner import python_command
from holdfast.kernel.errors import HoldfastError
from holdfast.operations import REGISTRY

Surface = Literal["library", "http", "cli"]
AGENT = "ai:bench@here"
LONG_SECONDS = 3600
"""Time limit: computing the embeddings of a large store may take this long."""


def holdfast_command(*words: str) -> list[str]:
    """Return a command as the console script runs it."""
    return python_command("-c", "from holdfast.__main__ import main; main()", *words)


@contextmanager
def open_client(surface: Surface, db: str) -> Iterator[Client]:
    """Open a store through one of the surfaces, with the caller's settings."""
    match surface:
        case "library":
            with app.open(db, agent_id=AGENT) as hold:
                yield hold
        case "http":
            with serve(db) as server:
                yield server
        case "cli":
            yield CommandLine(db)


class CommandLine:
    """Run a process for every call."""

    def __init__(self, db: str) -> None:
        self._db = db

    def call(self, operation: str, arguments: dict[str, Any]) -> bytes:
        words, given = self._words(operation, arguments)
        done = subprocess.run(words, input=given, capture_output=True, check=False)  # noqa: S603 - our own
        if done.returncode:
            raise HoldfastError(f"`holdfast {operation}` failed: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def _words(self, name: str, arguments: dict[str, Any]) -> tuple[list[str], bytes]:
        """Return the command and its standard input."""
        op, flags, by_place, given = REGISTRY[name], list[str](), list[str](), b""
        for field, value in arguments.items():
            if field == op.bulk:
                given = msgspec.json.encode(value)
            elif op.field_option(field, "argument"):
                by_place.append(value)
            else:
                flags += [f"--{field.replace('_', '-')}", str(value)]
        ours = ["--json", "--db", self._db, "--agent-id", AGENT]
        return holdfast_command(*op.cli, *ours, *flags, "--", *by_place), given


class Server:
    """One connection to `holdfast serve`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=LONG_SECONDS)
        key = settings.load().api_key
        self._headers = {"content-type": "application/json", "x-agent-id": AGENT}
        self._headers |= {"authorization": f"Bearer {key}"} if key else {}

    def call(self, operation: str, arguments: dict[str, Any]) -> bytes:
        op = REGISTRY[operation]
        self._connection.request(op.method, op.path, msgspec.json.encode(arguments), self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status >= 400:
            raise HoldfastError(f"{op.method} {op.path} returned {answer.status}: {body.decode()}")
        return body

    def close(self) -> None:
        self._connection.close()


@contextmanager
def serve(db: str, **more: str) -> Iterator[Server]:
    """Run a server on a free port and stop it afterwards."""
    command = holdfast_command("serve", "--db", db, "--host", "127.0.0.1", "--port", "0")
    patient = {**os.environ, "HOLDFAST_TIMEOUT_SECS": str(LONG_SECONDS), **more}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=patient)  # noqa: S603 - our own
    try:
        server = Server(_wait_for_url(process))
        yield server
        server.close()
    finally:
        process.terminate()
        process.communicate()


def _wait_for_url(process: "subprocess.Popen[str]") -> str:
    """Wait for the server's greeting and return its URL."""
    assert process.stderr is not None
    greeting = process.stderr.readline()
    found = re.search(r"http://[^\s:]+:[0-9]+", greeting)
    if not found:
        raise HoldfastError(f"`holdfast serve` did not start: {greeting}{process.stderr.read()}")
    return found[0]
