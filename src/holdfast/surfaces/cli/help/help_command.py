"""`holdfast help`: the commands by topic, every command, or one of them."""

from typing import Any

import click

from holdfast.surfaces.cli.command_group import format_all, locate_command
from holdfast.surfaces.cli.global_options import global_options
from holdfast.surfaces.cli.help.documented_command import DocumentedCommand


@click.command(
    "help", cls=DocumentedCommand, examples=("holdfast help --all", "holdfast help task add"), params=global_options()
)
@click.argument("words", nargs=-1, metavar="[COMMAND...]")
@click.option("--all", "everything", is_flag=True, help="Every command with its subcommands.")
def help_command(words: tuple[str, ...], *, everything: bool, **_: Any) -> None:
    """Show commands by topic; --all shows every one."""
    if everything:
        click.echo(format_all())
        return
    ctx = locate_command(click.get_current_context().find_root(), words)
    click.echo(ctx.get_help())
