"""`holdfast mcp`: MCP over standard input and output."""

from typing import Any

import click

from holdfast.app import open as open_memory
from holdfast.surfaces.cli.global_options import global_options, resolve_global_options, settings_of
from holdfast.surfaces.cli.help.documented_command import DocumentedCommand
from holdfast.surfaces.cli.output import exit_with
from holdfast.surfaces.mcp.stdio import serve as run


@click.command(
    cls=DocumentedCommand, examples=("holdfast mcp", "holdfast mcp --profile standard,tasks"), params=global_options()
)
@click.option(
    "--profile", help="Tools to offer: core, standard, full, or features such as graph,tasks [default: core]."
)
def mcp(profile: str | None, **given: Any) -> None:
    """Serve MCP over standard input and output; agents start this."""
    wanted = resolve_global_options(given)
    settings = settings_of(wanted, mcp_profile=profile)

    with open_memory(settings=settings, source="nhi") as hold:
        exit_with(run(hold, settings.mcp_profile))
