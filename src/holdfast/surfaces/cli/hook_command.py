"""Hooks of agents' hosts: an event on standard input, an answer on standard output, never a failure and never late."""

import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING

import click

from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.settings import Settings, config_file

if TYPE_CHECKING:
    from holdfast.features.agent_hosts.host import Happened
    from holdfast.kernel.context import Progress

MOST_BYTES = 16 << 20
"""Of what a host tells."""
GRACE_SECONDS = 0.2
"""For an answer that is just being given."""
SWITCH = "hooks-off"
"""A file beside the settings: while it is there, hooks do nothing."""


def complain(what: str, error: object) -> None:
    """One line for whoever looks; the host goes on."""
    text = error.message if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
    flat = " ".join(str(text).split())[:500].encode(errors="replace").decode()
    if sys.stderr is not None:
        sys.stderr.write(f"holdfast {what}: {flat}\n")
        sys.stderr.flush()


class Deadline:
    """The process ends when it is over, whatever it waits for: with success, and with nothing more said. Or it becomes
    another.

    What is being written then is whole or not there, as after any other end of a process.
    """

    def __init__(self, what: str, seconds: float, become: Callable[[], None] = lambda: None) -> None:
        self._what, self._seconds, self._become = what, seconds, become
        self._until = monotonic() + seconds
        self._left = threading.Event()
        self._speaking = threading.Lock()

    @property
    def remaining(self) -> float:
        return max(0.0, self._until - monotonic())

    def say(self, text: bytes) -> None:
        """Answer, in one piece or not at all."""
        with self._speaking:
            click.echo(text)

    def __enter__(self) -> "Deadline":
        threading.Thread(target=self._watch, name="holdfast-deadline", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()

    def _watch(self) -> None:
        if self._left.wait(self._seconds):
            return
        self._speaking.acquire(timeout=GRACE_SECONDS)  # a host that does not read is not waited for either
        complain(self._what, Invalid(f"it took longer than {self._seconds:g} seconds and was ended."))
        try:
            end_children()
            self._become()
        finally:
            os._exit(0)


def end_children() -> None:
    """End what hooks of the settings run: nothing outlives this process."""
    from holdfast.features.tasks.subprocess_runner import end_all

    end_all()


def switch(environment: Mapping[str, str]) -> Path:
    """Where the file lies that turns hooks off."""
    settings = config_file(environment)
    if settings is None:
        raise Invalid("There is no folder for settings: set HOME, or HOLDFAST_AGENT_HOOKS=0.")
    return settings.with_name(SWITCH)


def turned(*, on: bool) -> None:
    """Turn the hooks of this user on or off, for every host and session at once."""
    file = switch(os.environ)
    try:
        if on:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    except OSError as error:
        raise Invalid(f"{file} cannot be changed: {error.strerror or error}") from None


def off_because(settings: Settings) -> str | None:
    """Why hooks do nothing; None: they do."""
    if not settings.agent_hooks:
        return "the setting agent_hooks (HOLDFAST_AGENT_HOOKS) is false"
    file = switch(os.environ)
    return f"`holdfast hooks off` was said: {file}" if file.exists() else None


def told_by_host(payload: str | None) -> bytes:
    """What the host tells: as an argument, or on standard input."""
    if payload is not None:
        return payload.encode(errors="replace")
    if sys.stdin is None or sys.stdin.isatty():
        raise Invalid("a hook is run by an agent's host, which tells of an event on standard input.")
    told = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(told) > MOST_BYTES:
        raise Invalid(f"what the host tells has more than {MOST_BYTES >> 20} MiB.")
    return told


def run(event: str, host: str | None, payload: str | None, settings: Settings) -> None:
    """Do what is to be done about an event, in the time that is set."""
    from holdfast.features.agent_hosts.host import EVENTS, HOSTS, happened

    if event not in EVENTS or (host is not None and host not in HOSTS):
        raise Invalid(f"hook {' | '.join(EVENTS)}, and --host {' | '.join(HOSTS)}.")
    with Deadline(f"hook {event}", settings.hook_timeout_ms / 1000) as deadline:
        told = told_by_host(payload)
        if off_because(settings) is None:
            do(at_its_start(happened(event, told, host)), settings, deadline)  # type: ignore[arg-type]


def at_its_start(told: "Happened") -> "Happened":
    """A session belongs to the folder that it was started in, wherever its agent goes."""
    started = os.environ.get("CLAUDE_PROJECT_DIR") if told.host == "claude-code" else None
    return told._replace(folder=started) if started else told


def do(told: "Happened", settings: Settings, deadline: Deadline) -> None:
    """Answer first, then keep what was said."""
    from holdfast.app import open as open_memory
    from holdfast.features.agent_hosts import service as host_hooks
    from holdfast.features.agent_hosts.host import answer
    from holdfast.surfaces.error_responses import encode

    with open_memory(settings=settings, source="hook", once=True) as memory:
        hold = memory.hold
        said = ""
        if told.event == "session-start":
            said = host_hooks.begun(hold, told, settings.boot_budget)
        elif told.event == "prompt":
            said = host_hooks.bearing(hold, told, settings.hook_budget)
        if said:
            deadline.say(encode(answer(told.name, said)))
        if settings.hook_capture:
            host_hooks.keep(hold, told, memory.call)
        if told.event == "session-end":
            host_hooks.settle(hold.seen_by(hold.caller, _until(deadline)))


def _until(deadline: Deadline) -> "Progress":
    """A progress that is given up in time to end in order."""
    from holdfast.kernel.context import Progress as Going

    stop = threading.Event()
    timer = threading.Timer(deadline.remaining / 2, stop.set)
    timer.daemon = True
    timer.start()
    return Going(stop=stop)
