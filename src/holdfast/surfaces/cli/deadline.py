"""The deadline of agent hooks: a command that an agent's host waits for ends in time and never fails."""

import os
import sys
import threading
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Any

import click

from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.surfaces.cli.help.documented_command import DocumentedCommand

GRACE_SECONDS = 0.2
"""Extra time for an answer that is being written at the deadline."""


def print_hook_error(command: str, error: object) -> None:
    """Print an error as one line; the host continues."""
    text = error.message if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
    flat = " ".join(str(text).split())[:500].encode(errors="replace").decode()
    if sys.stderr is not None:
        sys.stderr.write(f"holdfast {command}: {flat}\n")
        sys.stderr.flush()


class NonFailingCommand(DocumentedCommand):
    """A command run by an agent host. It always exits with 0; an error is one line on standard error."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            self._print_error(Invalid(error.format_message()))
            raise click.exceptions.Exit(0) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001 - no error may end the agent's session
            self._print_error(error)
            raise click.exceptions.Exit(0) from None

    def _print_error(self, error: Exception) -> None:
        print_hook_error(self.name or "", error)


class Deadline:
    """End the process with exit code 0 when the time is over, or replace it by calling `become`.

    A write that is under way is committed or rolled back, as after any other end of the process.
    """

    def __init__(self, what: str, seconds: float, become: Callable[[], None] = lambda: None) -> None:
        self._what, self._seconds, self._become = what, seconds, become
        self._until = monotonic() + seconds
        self._ended = threading.Event()
        self._writing = threading.Lock()

    @property
    def remaining(self) -> float:
        return max(0.0, self._until - monotonic())

    def write(self, text: bytes) -> None:
        """Write the answer, whole or not at all."""
        with self._writing:
            click.echo(text)

    def __enter__(self) -> "Deadline":
        threading.Thread(target=self._watch, name="holdfast-deadline", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()

    def _watch(self) -> None:
        if self._ended.wait(self._seconds):
            return
        self._writing.acquire(timeout=GRACE_SECONDS)  # do not wait for a host that does not read
        print_hook_error(self._what, Invalid(f"stopped after {self._seconds:g} seconds."))
        try:
            end_children()
            self._become()
        finally:
            os._exit(0)


def end_children() -> None:
    """Kill the processes of lifecycle hooks: none may outlive this one."""
    from holdfast.features.tasks.subprocess_runner import kill_all  # loads subprocess, 10 ms; only a late hook kills

    kill_all()
