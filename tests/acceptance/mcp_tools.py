"""The official MCP tools, installed once beside these tests, and a real server for them to look at."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from timeouts import TEST_TIMEOUT, TIMEOUT

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
HOME = MODULES / ".home"
WANTED: dict[str, str] = json.loads((HERE / "package.json").read_text())["dependencies"]


def cli(*words: str) -> list[str]:
    return [sys.executable, "-c", "from holdfast.__main__ import main; main()", *words]


def installed() -> dict[str, str]:
    """An environment in which the tools are found. What cannot be installed fails the test that needs it."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (MODULES / ".installing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if any(version_of(name) != version for name, version in WANTED.items()):
            install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--prefix", str(HERE)]
            done = subprocess.run(install, capture_output=True, text=True, timeout=TEST_TIMEOUT, check=False)
            assert done.returncode == 0, f"the MCP tools cannot be installed: {done.stderr[-2000:]}"
    path = f"{MODULES / '.bin'}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "HOME": str(HOME), "NO_COLOR": "1"}


def version_of(name: str) -> str | None:
    manifest = MODULES / name / "package.json"
    return json.loads(manifest.read_text())["version"] if manifest.exists() else None


@contextmanager
def serving(db: str) -> Iterator[str]:
    """The URL of MCP on a server that was started as a user starts it."""
    with subprocess.Popen(cli("serve", "--db", db, "--port", "0"), stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            yield server.stderr.readline().split()[-1] + "/mcp"
        finally:
            server.terminate()
            assert server.wait(timeout=TIMEOUT) == 0
