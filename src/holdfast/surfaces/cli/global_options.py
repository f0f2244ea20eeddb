"""Options that every command accepts, before or after its name."""

from typing import Any

import click

from holdfast.settings import Settings, load

GLOBAL_OPTIONS = ("db", "json", "agent_id")


def global_options(taken: set[str] | frozenset[str] = frozenset()) -> list[click.Option]:
    """Return the options accepted before or after a command; a field of the command takes precedence."""
    options = [
        click.Option(["--db"], metavar="PATH", help="Store to use (or HOLDFAST_DB)."),
        click.Option(["--json"], is_flag=True, default=None, help="Print JSON only."),
        click.Option(["--agent-id"], metavar="ID", help="Agent id (or HOLDFAST_AGENT_ID)."),
    ]
    return [option for option in options if option.name not in taken]


def resolve_global_options(given: dict[str, Any]) -> dict[str, Any]:
    """Merge the global options: those after the command win over those before it."""
    chosen = {name: given.get(name) for name in GLOBAL_OPTIONS}
    before = click.get_current_context().parent
    while before:
        chosen = {name: before.params.get(name) if value is None else value for name, value in chosen.items()}
        before = before.parent
    return chosen


def settings_of(wanted: dict[str, Any], **flags: Any) -> Settings:
    """Load the settings, overridden by the global options and the command's flags."""
    return load_settings({"db": wanted["db"], "agent_id": wanted["agent_id"], **flags})


def load_settings(flags: dict[str, Any]) -> Settings:
    """Load the settings; print one line to standard error if deprecated names are used."""
    return load(
        flags, on_deprecated=lambda note: click.echo(f"{click.style('warning', fg='yellow')}: {note}", err=True)
    )
