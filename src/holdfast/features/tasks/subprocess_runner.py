"""Run a program with limits on time and output. No process that it starts outlives it."""

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
"""Stored output bytes of a program. The rest is read and discarded."""
LOOK_SECONDS = 0.2
"""Interval of checks whether to stop the program."""
MARK = "HANDLER_OF_HOLDFAST"
"""Environment variable with a unique value, inherited by every process that the program starts."""
GRACE_SECONDS = 5.0
"""Seconds between SIGTERM and SIGKILL."""
PIPE_SECONDS = 1.0
"""Minimum wait for the rest of the output."""
_running: dict["subprocess.Popen[bytes]", bytes] = {}
"""Running processes and their marks."""


def python(*words: str) -> list[str]:
    """Command line of this Python interpreter. `-P` keeps it from importing from the current folder."""
    return [sys.executable, "-P", *words]


class Ended(NamedTuple):
    """Exit code and output of a program."""

    code: int
    output: str
    errors: str
    stopped: str | None = None
    """Why the program was stopped, if it was."""


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
    """Run a program in its own process group and wait for it. Raises OSError if it cannot start."""
    mark = f"{MARK}={os.urandom(16).hex()}"
    try:
        process = subprocess.Popen(  # noqa: S603 - only an admin can set the command
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
    """Kill all running programs before this process exits."""
    for mark in list(_running.values()):
        _end(mark)


def _end(mark: bytes) -> None:
    """Kill a program and everything it started, even if the start itself was interrupted."""
    for process in [process for process, its in list(_running.items()) if its == mark]:
        _signal(process, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_SECONDS)
        _running.pop(process, None)
    _sweep(mark)


def _wait(
    process: "subprocess.Popen[bytes]", deadline: float, timeout: float, stop: Callable[[], str | None], grace: float
) -> str | None:
    """Wait for the program. Returns why it was stopped, or None if it ended on its own."""
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
    """Signal the whole process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _sweep(mark: bytes) -> None:
    """Kill processes that left the group but carry the mark. Needs /proc."""
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (place / "environ").read_bytes().split(b"\0"):
                os.kill(int(place.name), signal.SIGKILL)


class _Kept:
    """Read a pipe on a thread and store at most a limit of bytes."""

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
        """Output up to a deadline. A process that keeps the pipe open is not waited for."""
        self._thread.join(max(until - monotonic(), 0.0))
        return bytes(self._kept).decode("utf-8", "replace")


class _Told:
    """Write to a pipe on a thread, whether or not it is read."""

    def __init__(self, pipe: IO[bytes], words: bytes) -> None:
        threading.Thread(target=self._write, args=(pipe, words), name="holdfast-input", daemon=True).start()

    def _write(self, pipe: IO[bytes], words: bytes) -> None:
        with suppress(OSError), pipe:
            pipe.write(words)
