"""A program that is run for somebody: bounded in time and output, and none of what it starts outlives it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import IO, NamedTuple

MOST_BYTES = 32 * 1024
"""Of what a program prints, from its beginning; the rest is read and let go."""
LOOK_SECONDS = 0.2
"""How often it is looked whether the program is to end."""
MARK = "HANDLER_OF_HOLDFAST"
"""In the environment of a program and of all that it starts, with a number of its own."""
GRACE_SECONDS = 5.0
"""Between being asked to end and being ended."""
PIPE_SECONDS = 1.0
"""For what a program printed last to be read, at least."""
_running: dict["subprocess.Popen[bytes]", bytes] = {}
"""What runs now, with its mark."""


def python(*words: str) -> list[str]:
    """Our own Python. It imports nothing from the folder that it is started in, which may be anybody's."""
    return [sys.executable, "-P", *words]


class Ended(NamedTuple):
    """How a program ended."""

    code: int
    output: str
    errors: str
    stopped: str | None = None
    """Why it was made to end, if it was."""


def run(
    argv: Sequence[str],
    *,
    words: bytes,
    environment: Mapping[str, str],
    timeout: float,
    stop: Callable[[], str | None] = lambda: None,
    grace: float = GRACE_SECONDS,
    most: int = MOST_BYTES,
) -> Ended:
    """Run a program in a group of its own and wait for it. Raises OSError if it cannot be started."""
    mark = f"{MARK}={os.urandom(16).hex()}"
    try:
        process = subprocess.Popen(  # noqa: S603 - what is run is for an admin to say
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment, MARK: mark.partition("=")[2]},
            start_new_session=True,
        )
        _running[process] = mark.encode()
        assert process.stdin
        assert process.stdout
        assert process.stderr
        output, errors = _Kept(process.stdout, most), _Kept(process.stderr, MOST_BYTES)
        _Told(process.stdin, words)
        why = _wait(process, monotonic() + timeout, timeout, stop, grace)
    finally:
        _end(mark.encode())
    until = monotonic() + max(grace, PIPE_SECONDS)
    return Ended(process.wait(), output.text(until), errors.text(until), why)


def end_all() -> None:
    """End everything that is being run, for a process that ends at once."""
    for mark in list(_running.values()):
        _end(mark)


def _end(mark: bytes) -> None:
    """End a program and what it started, also if who started it was interrupted before they knew of it."""
    for process in [process for process, its in list(_running.items()) if its == mark]:
        _signal(process, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_SECONDS)
        _running.pop(process, None)
    _sweep(mark)


def _wait(
    process: "subprocess.Popen[bytes]", deadline: float, timeout: float, stop: Callable[[], str | None], grace: float
) -> str | None:
    """Until it ends by itself, or why it was made to."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(min(LOOK_SECONDS, deadline - monotonic()), 0.001))
            return None
        why = f"It took longer than {timeout:g} seconds." if monotonic() > deadline else stop()
        if why is not None:
            _signal(process, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(grace)
            return why


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """To the whole group, so that nothing that it started is left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _sweep(mark: bytes) -> None:
    """End what left the group but still carries the mark of the program, where processes can be looked at."""
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (place / "environ").read_bytes().split(b"\0"):
                os.kill(int(place.name), signal.SIGKILL)


class _Kept:
    """What comes out of a pipe: its beginning, and nothing that would fill the memory."""

    def __init__(self, pipe: IO[bytes], most: int) -> None:
        self._pipe = pipe
        self._most = most
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, name="holdfast-output", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe, suppress(OSError, ValueError):
            while part := self._pipe.read1(65_536):  # type: ignore[attr-defined]
                self._kept += part[: self._most - len(self._kept)]

    def text(self, until: float) -> str:
        """What was printed until the program ended; who holds its pipe open in secret is not waited for."""
        self._thread.join(max(until - monotonic(), 0.0))
        return bytes(self._kept).decode("utf-8", "replace")


class _Told:
    """What goes into a pipe, whether it is read or not."""

    def __init__(self, pipe: IO[bytes], words: bytes) -> None:
        threading.Thread(target=self._write, args=(pipe, words), name="holdfast-input", daemon=True).start()

    def _write(self, pipe: IO[bytes], words: bytes) -> None:
        with suppress(OSError), pipe:
            pipe.write(words)
