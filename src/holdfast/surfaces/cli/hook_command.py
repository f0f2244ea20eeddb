"""`holdfast agents hook` and `holdfast agents boot`: what an agent's host runs. They never fail or block."""

import os
import sys
from typing import Any

import click

from holdfast.features.agent_hosts.host import EVENTS, HOSTS, HostEvent, parse_event
from holdfast.kernel.errors import Invalid
from holdfast.settings import Settings
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.cli.deadline import Deadline, NonFailingCommand
from holdfast.surfaces.cli.global_options import global_options, resolve_global_options, settings_of
from holdfast.surfaces.cli.help.flags import HiddenNames
from holdfast.surfaces.cli.hooks_commands import disabled_reason

MAX_PAYLOAD_BYTES = 16 << 20
"""Largest accepted event."""


@click.command(
    cls=NonFailingCommand,
    examples=(
        'echo \'{"session_id": "s-1"}\' | holdfast agents hook session-start --host claude-code',
        'holdfast agents hook prompt \'{"session_id": "s-1", "prompt": "When do we deploy?"}\' --host codex',
    ),
    params=global_options(),
)
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


@click.command(
    cls=NonFailingCommand,
    examples=("holdfast agents boot", "holdfast agents boot --namespace shop/web --budget-tokens 800"),
    params=global_options(),
)
@click.option("--path", metavar="DIR", help="Folder of the project [default: this one].")
@click.option("-n", "--namespace", metavar="TEXT", help="Project namespace; overrides --path.")
@click.option(
    "--budget-tokens",
    "budget",
    "--budget",
    cls=HiddenNames,
    hidden_names=("--budget",),
    type=int,
    metavar="N",
    help="Longest context, in tokens [default: 1500].",
)
@click.option("--no-header", is_flag=True, help="Omit the header line.")
def boot(path: str | None, namespace: str | None, budget: int | None, *, no_header: bool, **given: Any) -> None:
    """Print the session-start context for a project. Never fails or blocks."""
    wanted = resolve_global_options(given)
    settings = settings_of(wanted)
    with Deadline("boot", settings.hook_timeout_ms / 1000) as deadline:
        from holdfast.surfaces.cli.boot_context import read_boot_context  # loads the store, 60 ms: inside the deadline

        answer = read_boot_context(settings, path, namespace, budget)
        said = [answer.text] if answer.text else []
        deadline.write(
            wire.encode(answer)
            if wanted["json"]
            else "\n".join(said if no_header else [answer.manifest, *said]).encode()
        )
