"""The official MCP tools, installed once next to these tests, and a real server to test."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from timeouts import TIMEOUT

MODULES = Path(__file__).parent / "node_modules"
HOME = MODULES / ".home"


def cli(*words: str) -> list[str]:
    return [sys.executable, "-c", "from holdfast.__main__ import main; main()", *words]


def tools_environment() -> dict[str, str]:
    """Return an environment with the tools on the path."""
    assert (MODULES / ".ready").exists(), "The MCP tools are not installed: run make tools."
    HOME.mkdir(exist_ok=True)
    path = f"{MODULES / '.bin'}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "HOME": str(HOME), "NO_COLOR": "1"}


@contextmanager
def serving(db: str) -> Iterator[str]:
    """Yield the MCP URL of a server started as a user would."""
    with subprocess.Popen(cli("serve", "--db", db, "--port", "0"), stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            yield server.stderr.readline().split()[-1] + "/mcp"
        finally:
            server.terminate()
            assert server.wait(timeout=TIMEOUT) == 0
