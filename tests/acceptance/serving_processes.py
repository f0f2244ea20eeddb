"""Holdfast servers as processes."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from timeouts import TIMEOUT

HOLDFAST = (sys.executable, "-c", "from holdfast.__main__ import main; main()")


class ServerProcess:
    """`holdfast serve` as a process."""

    def __init__(self, db: str, port: int = 0, **settings: str) -> None:
        command = [*HOLDFAST, "serve", "--db", db, "--port", str(port)]
        environment = {**os.environ, **{f"HOLDFAST_{name.upper()}": value for name, value in settings.items()}}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)

    def is_ready(self) -> None:
        """Wait until it serves."""
        assert self.process.stderr is not None
        greeting = self.process.stderr.readline()
        found = re.search(r"http://\S+:([1-9][0-9]+)", greeting)
        assert found, greeting + self.process.stderr.read()
        self.url, self.port = found[0], int(found[1])

    def stop(self) -> tuple[int, str]:
        """Terminate it; return its exit code and output."""
        self.process.terminate()
        _, output = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, output


@contextmanager
def start_servers(count: int, db: str, **settings: str) -> Iterator[list[ServerProcess]]:
    """Start several servers on one store at the same time."""
    servers = [ServerProcess(db, **settings) for _ in range(count)]
    try:
        for server in servers:
            server.is_ready()
        yield servers
    finally:
        for server in servers:
            server.process.kill()
            server.process.communicate()
