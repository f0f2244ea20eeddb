"""Agent host hooks: an event on standard input, an answer on standard output. They never fail and are never late."""

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
    from holdfast.features.agent_hosts.host import HostEvent
    from holdfast.kernel.context import Progress

MAX_PAYLOAD_BYTES = 16 << 20
"""Largest accepted event."""
GRACE_SECONDS = 0.2
"""Extra time for an answer that is being written at the deadline."""
OFF_FILE = "hooks-off"
"""A file beside the settings. While it exists, hooks do nothing."""


def print_hook_error(command: str, error: object) -> None:
    """Print an error as one line; the host continues."""
    text = error.message if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
    flat = " ".join(str(text).split())[:500].encode(errors="replace").decode()
    if sys.stderr is not None:
        sys.stderr.write(f"holdfast {command}: {flat}\n")
        sys.stderr.flush()


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
    from holdfast.features.tasks.subprocess_runner import kill_all

    kill_all()


def locate_off_file(environment: Mapping[str, str]) -> Path:
    """Return the path of the file that turns hooks off."""
    settings = config_file(environment)
    if settings is None:
        raise Invalid("There is no settings folder: set HOME, or HOLDFAST_AGENT_HOOKS=0.")
    return settings.with_name(OFF_FILE)


def set_hooks_enabled(*, on: bool) -> None:
    """Turn this user's agent hooks on or off, for all hosts and sessions."""
    file = locate_off_file(os.environ)
    try:
        if on:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    except OSError as error:
        raise Invalid(f"Cannot change {file}: {error.strerror or error}.") from None


def disabled_reason(settings: Settings) -> str | None:
    """Return why hooks are off, or None if they are on."""
    if not settings.agent_hooks:
        return "the setting agent_hooks (HOLDFAST_AGENT_HOOKS) is false"
    file = locate_off_file(os.environ)
    return f"turned off by `holdfast hooks off` ({file})" if file.exists() else None


def read_payload(payload: str | None) -> bytes:
    """Read the event from the argument or from standard input."""
    if payload is not None:
        return payload.encode(errors="replace")
    if sys.stdin is None or sys.stdin.isatty():
        raise Invalid("no event on standard input: agent hosts run this command.")
    payload_bytes = sys.stdin.buffer.read(MAX_PAYLOAD_BYTES + 1)
    if len(payload_bytes) > MAX_PAYLOAD_BYTES:
        raise Invalid(f"the event has more than {MAX_PAYLOAD_BYTES >> 20} MiB.")
    return payload_bytes


def run_hook(event: str, host: str | None, payload: str | None, settings: Settings) -> None:
    """Handle an event within `hook_timeout_ms`."""
    from holdfast.features.agent_hosts.host import EVENTS, HOSTS, parse_event

    if event not in EVENTS or (host is not None and host not in HOSTS):
        raise Invalid(f"event must be one of {', '.join(EVENTS)}; --host one of {', '.join(HOSTS)}.")
    with Deadline(f"hook {event}", settings.hook_timeout_ms / 1000) as deadline:
        received = read_payload(payload)
        if disabled_reason(settings) is None:
            handle_event(with_start_folder(parse_event(event, received, host)), settings, deadline)  # type: ignore[arg-type]


def with_start_folder(event: "HostEvent") -> "HostEvent":
    """Set the folder in which the session was started; the agent may have changed to another."""
    started = os.environ.get("CLAUDE_PROJECT_DIR") if event.host == "claude-code" else None
    return event._replace(folder=started) if started else event


def handle_event(event: "HostEvent", settings: Settings, deadline: Deadline) -> None:
    """Answer the event, then store the captured turns."""
    from holdfast.app import open as open_memory
    from holdfast.features.agent_hosts import service as host_hooks
    from holdfast.features.agent_hosts.host import build_answer
    from holdfast.surfaces.error_responses import encode

    with open_memory(settings=settings, source="hook", once=True) as memory:
        ctx = memory.ctx
        text = ""
        if event.event == "session-start":
            text = host_hooks.build_session_start(ctx, event, settings.session_start_budget_tokens)
        elif event.event == "prompt":
            text = host_hooks.build_prompt_context(ctx, event, settings.hook_budget_tokens)
        if text:
            deadline.write(encode(build_answer(event.name, text)))
        if settings.hook_capture:
            host_hooks.capture_event(ctx, event, memory.call)
        if event.event == "session-end":
            host_hooks.embed_pending(ctx.for_caller(ctx.caller, _progress_until(deadline)))


def _progress_until(deadline: Deadline) -> "Progress":
    """Return a progress that is cancelled at half of the remaining time, to leave time for cleanup."""
    from holdfast.kernel.context import Progress as Going

    stop = threading.Event()
    timer = threading.Timer(deadline.remaining / 2, stop.set)
    timer.daemon = True
    timer.start()
    return Going(stop=stop)
