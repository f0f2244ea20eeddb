"""Agent host hooks: an event on standard input, an answer on standard output. They never fail and are never late."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from holdfast.features.agent_hosts.host import EVENTS, HOSTS, HostEvent, parse_event
from holdfast.kernel.errors import Invalid
from holdfast.settings import Settings, config_file
from holdfast.surfaces.cli.command_group import CommandGroup
from holdfast.surfaces.cli.deadline import Deadline, print_hook_error
from holdfast.surfaces.cli.global_options import global_options, load_settings, resolve_global_options, settings_of

MAX_PAYLOAD_BYTES = 16 << 20
"""Largest accepted event."""
OFF_FILE = "hooks-off"
"""A file beside the settings. While it exists, hooks do nothing."""


class NonFailingCommand(click.Command):
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
    if event not in EVENTS or (host is not None and host not in HOSTS):
        raise Invalid(f"event must be one of {', '.join(EVENTS)}; --host one of {', '.join(HOSTS)}.")
    with Deadline(f"hook {event}", settings.hook_timeout_ms / 1000) as deadline:
        received = read_payload(payload)
        if disabled_reason(settings) is None:
            from holdfast.surfaces.cli import hook_actions  # loads the store, 60 ms: inside the deadline

            hook_actions.handle_event(with_start_folder(parse_event(event, received, host)), settings, deadline)  # type: ignore[arg-type]


def with_start_folder(event: HostEvent) -> HostEvent:
    """Set the folder in which the session was started; the agent may have changed to another."""
    started = os.environ.get("CLAUDE_PROJECT_DIR") if event.host == "claude-code" else None
    return event._replace(folder=started) if started else event


@click.command(cls=NonFailingCommand, params=global_options())
@click.argument("event", metavar="session-start|prompt|tool|session-end")
@click.argument("payload", required=False, metavar="[JSON]")
@click.option("--host", metavar="claude-code|codex", help="Calling agent host [default: detect].")
def hook(event: str, payload: str | None, host: str | None, **given: Any) -> None:
    """Handle an agent hook event. Never fails or blocks."""
    wanted = resolve_global_options(given)
    run_hook(event, host, payload, settings_of(wanted))


@click.group(cls=CommandGroup, path=("hooks",), params=global_options())
def hooks(**_: Any) -> None:
    """Turn agent hooks on or off; list and test lifecycle hooks."""


@hooks.command("off", params=global_options())
def hooks_off(**_: Any) -> None:
    """Turn agent hooks off in all sessions."""
    set_hooks_enabled(on=False)
    click.echo("Hooks are off: they add no context and store nothing. To turn them on: `holdfast hooks on`.")


@hooks.command("on", params=global_options())
def hooks_on(**_: Any) -> None:
    """Turn agent hooks on again."""
    set_hooks_enabled(on=True)
    why = disabled_reason(load_settings({}))
    click.echo("Hooks are on." if why is None else f"Hooks are still off: {why}.")


@hooks.command("status", params=global_options())
def hooks_status(**_: Any) -> None:
    """Show whether agent hooks are on."""
    why = disabled_reason(load_settings({}))
    click.echo("Hooks are on." if why is None else f"Hooks are off: {why}.")
