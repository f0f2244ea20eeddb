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

MAX_OUTPUT_BYTES = 32 * 1024
"""Stored output bytes of a program. The rest is read and discarded."""
POLL_SECONDS = 0.2
"""Interval of checks whether to stop the program."""
MARK_VARIABLE = "HANDLER_OF_HOLDFAST"
"""Environment variable with a unique value, inherited by every process that the program starts."""
GRACE_SECONDS = 5.0
"""Seconds between SIGTERM and SIGKILL."""
PIPE_SECONDS = 1.0
"""Minimum wait for the rest of the output."""
_running: dict["subprocess.Popen[bytes]", bytes] = {}
"""Running processes and their marks."""


def python_command(*arguments: str) -> list[str]:
    """Command line of this Python interpreter. `-P` keeps it from importing from the current folder."""
    return [sys.executable, "-P", *arguments]


class ProcessResult(NamedTuple):
    """Exit code and output of a program."""

    code: int
    output: str
    errors: str
    stop_reason: str | None = None
    """Why the program was stopped, if it was."""


def run_program(
    argv: Sequence[str],
    *,
    stdin: bytes,
    environment: Mapping[str, str],
    timeout: float,
    stop: Callable[[], str | None] = lambda: None,
    grace: float = GRACE_SECONDS,
    max_bytes: int = MAX_OUTPUT_BYTES,
) -> ProcessResult:
    """Run a program in its own process group and wait for it. Raises OSError if it cannot start."""
    mark = f"{MARK_VARIABLE}={os.urandom(16).hex()}"
    try:
        process = subprocess.Popen(  # noqa: S603 - only an admin can set the command
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment, MARK_VARIABLE: mark.partition("=")[2]},
            start_new_session=True,
        )
        _running[process] = mark.encode()
        assert process.stdin
        assert process.stdout
        assert process.stderr
        output, errors = _OutputReader(process.stdout, max_bytes), _OutputReader(process.stderr, MAX_OUTPUT_BYTES)
        _InputWriter(process.stdin, stdin)
        why = _wait(process, monotonic() + timeout, timeout, stop, grace)
    finally:
        _kill(mark.encode())
    until = monotonic() + max(grace, PIPE_SECONDS)
    return ProcessResult(process.wait(), output.text(until), errors.text(until), why)


def kill_all() -> None:
    """Kill all running programs before this process exits."""
    for mark in list(_running.values()):
        _kill(mark)


def _kill(mark: bytes) -> None:
    """Kill a program and everything it started, even if the start itself was interrupted."""
    for process in [process for process, its in list(_running.items()) if its == mark]:
        _signal(process, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_SECONDS)
        _running.pop(process, None)
    _kill_stragglers(mark)


def _wait(
    process: "subprocess.Popen[bytes]", deadline: float, timeout: float, stop: Callable[[], str | None], grace: float
) -> str | None:
    """Wait for the program. Returns why it was stopped, or None if it ended on its own."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(min(POLL_SECONDS, deadline - monotonic()), 0.001))
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


def _kill_stragglers(mark: bytes) -> None:
    """Kill processes that left the group but carry the mark. Needs /proc."""
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (place / "environ").read_bytes().split(b"\0"):
                os.kill(int(place.name), signal.SIGKILL)


class _OutputReader:
    """Read a pipe on a thread and store at most a limit of bytes."""

    def __init__(self, pipe: IO[bytes], max_bytes: int) -> None:
        self._pipe = pipe
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._thread = threading.Thread(target=self._read, name="holdfast-output", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe, suppress(OSError, ValueError):
            while part := self._pipe.read1(65_536):  # type: ignore[attr-defined]
                self._buffer += part[: self._max_bytes - len(self._buffer)]

    def text(self, until: float) -> str:
        """Output up to a deadline. A process that keeps the pipe open is not waited for."""
        self._thread.join(max(until - monotonic(), 0.0))
        return bytes(self._buffer).decode("utf-8", "replace")


class _InputWriter:
    """Write to a pipe on a thread, whether or not it is read."""

    def __init__(self, pipe: IO[bytes], data: bytes) -> None:
        threading.Thread(target=self._write, args=(pipe, data), name="holdfast-input", daemon=True).start()

    def _write(self, pipe: IO[bytes], data: bytes) -> None:
        with suppress(OSError), pipe:
            pipe.write(data)
