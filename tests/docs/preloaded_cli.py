"""A preloaded `holdfast`: each command is forked from a process that has already imported the modules.

A command sends its arguments, folder, environment and files, so only the imports are skipped. README is tested with the
installed command instead, which imports everything. The preloaded modules are those needed for SQLite stores.
"""

import importlib
import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

LOADED = (
    "holdfast.surfaces.cli.app",
    "holdfast.surfaces.cli.run_operation",
    "holdfast.kernel.storage.sqlite.open_store",
)
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

COMMAND = """#!{python} -IS
import json, os, signal, socket, sys

line = socket.socket(socket.AF_UNIX)
line.connect({address!r})
umask = os.umask(0)
told = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ), umask]).encode()
socket.send_fds(line, [len(told).to_bytes(4, "big")], [0, 1, 2])
line.sendall(told)
pid = int.from_bytes(line.recv(4), "big")
for number in {forwarded}:
    signal.signal(number, lambda number, _: os.kill(pid, number))
os._exit(int.from_bytes(line.recv(1), "big"))
"""


@contextmanager
def warm_command() -> Iterator[Path]:
    """Yield a folder for PATH with a preloaded `holdfast`."""
    with TemporaryDirectory(prefix="holdfast-") as folder, _waiting(Path(folder)) as programs:
        yield programs


@contextmanager
def _waiting(folder: Path) -> Iterator[Path]:
    address = str(folder / "line")
    command = folder / "bin" / "holdfast"
    command.parent.mkdir()
    forwarded = tuple(map(int, FORWARDED))
    command.write_text(COMMAND.format(python=sys.executable, address=address, forwarded=forwarded))
    command.chmod(stat.S_IRWXU)
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    with subprocess.Popen(
        [sys.executable, "-P", __file__, address], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment
    ) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.read() == b"ready"
        yield command.parent
        waiting.terminate()


def wait_for_commands(address: str) -> None:
    """Return in a new process per command, as if it had just started."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen(16)
        os.write(1, b"ready")
        os.dup2(0, 1)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            line, _ = door.accept()
            if not os.fork():
                break
            line.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, files, _, _ = socket.recv_fds(line, 4, 3)
    command = json.loads(_read(line, int.from_bytes(length, "big")))
    if pid := os.fork():
        _answer(line, pid)
    line.close()
    _become(files, *command)


def _read(line: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        read += line.recv(size - len(read))
    return read


def _answer(line: socket.socket, pid: int) -> None:
    """Report how a command ended, or end it if its caller has gone."""
    for file in (0, 1, 2):
        os.close(file)
    line.sendall(pid.to_bytes(4, "big"))
    ended, _, _ = select.select([over := os.pidfd_open(pid), line], [], [])
    if over not in ended:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if over in ended:
        line.sendall((code if code >= 0 else 128 - code).to_bytes(1, "big"))
    os._exit(0)


def _become(files: list[int], words: list[str], folder: str, environment: dict[str, Any], umask: int) -> None:
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["holdfast", *words]


if __name__ == "__main__":
    from holdfast.__main__ import main

    for name in LOADED:
        importlib.import_module(name)
    wait_for_commands(sys.argv[1])
    main()
