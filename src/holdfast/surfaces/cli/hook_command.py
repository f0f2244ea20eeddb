"""`holdfast hook`: an event of an agent host on standard input, an answer on standard output. Never fails or blocks."""

import os
import sys
from typing import Any

import click

from holdfast.features.agent_hosts.host import EVENTS, HOSTS, HostEvent, parse_event
from holdfast.kernel.errors import Invalid
from holdfast.settings import Settings
from holdfast.surfaces.cli.deadline import Deadline, NonFailingCommand
from holdfast.surfaces.cli.global_options import global_options, resolve_global_options, settings_of
from holdfast.surfaces.cli.hooks_commands import disabled_reason

MAX_PAYLOAD_BYTES = 16 << 20
"""Largest accepted event."""


@click.command(cls=NonFailingCommand, params=global_options())
@click.argument("event", metavar="session-start|prompt|tool|session-end")
@click.argument("payload", required=False, metavar="[JSON]")
@click.option("--host", metavar="claude-code|codex", help="Calling agent host [default: detect].")
def hook(event: str, payload: str | None, host: str | None, **given: Any) -> None:
    """Handle an agent hook event. Never fails or blocks."""
    wanted = resolve_global_options(given)
    run_hook(event, host, payload, settings_of(wanted))


def run_hook(event: str, host: str | None, payload: str | None, settings: Settings) -> None:
    """Handle an event within `hook_timeout_ms`."""
    if event not in EVENTS or (host is not None and host not in HOSTS):
        raise Invalid(f"event must be one of {', '.join(EVENTS)}; --host one of {', '.join(HOSTS)}.")
    with Deadline(f"hook {event}", settings.hook_timeout_ms / 1000) as deadline:
        received = read_payload(payload)
        if disabled_reason(settings) is None:
            from holdfast.surfaces.cli import hook_actions  # loads the store, 60 ms: inside the deadline

            hook_actions.handle_event(with_start_folder(parse_event(event, received, host)), settings, deadline)  # type: ignore[arg-type]


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


def with_start_folder(event: HostEvent) -> HostEvent:
    """Set the folder in which the session was started; the agent may have changed to another."""
    started = os.environ.get("CLAUDE_PROJECT_DIR") if event.host == "claude-code" else None
    return event._replace(folder=started) if started else event
