"""`holdfast hooks`: turn the hooks of agent hosts on and off."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from holdfast.kernel.errors import Invalid
from holdfast.settings import Settings, config_file
from holdfast.surfaces.cli.global_options import global_options, load_settings
from holdfast.surfaces.cli.help.documented_command import DocumentedCommand

OFF_FILE = "hooks-off"
"""A file beside the settings. While it exists, hooks do nothing."""


@click.command("off", cls=DocumentedCommand, params=global_options(), examples=("holdfast agents hooks off",))
def hooks_off(**_: Any) -> None:
    """Turn agent hooks off in all sessions."""
    set_hooks_enabled(on=False)
    click.echo("Hooks are off: they add no context and store nothing. To turn them on: `holdfast agents hooks on`.")


@click.command("on", cls=DocumentedCommand, params=global_options(), examples=("holdfast agents hooks on",))
def hooks_on(**_: Any) -> None:
    """Turn agent hooks on again."""
    set_hooks_enabled(on=True)
    why = disabled_reason(load_settings({}))
    click.echo("Hooks are on." if why is None else f"Hooks are still off: {why}.")


@click.command("status", cls=DocumentedCommand, params=global_options(), examples=("holdfast agents hooks status",))
def hooks_status(**_: Any) -> None:
    """Show whether agent hooks are on."""
    why = disabled_reason(load_settings({}))
    click.echo("Hooks are on." if why is None else f"Hooks are off: {why}.")


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
    return f"turned off by `holdfast agents hooks off` ({file})" if file.exists() else None
