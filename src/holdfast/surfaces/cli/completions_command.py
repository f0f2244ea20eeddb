"""`holdfast admin completions`: the completion script of a shell."""

from typing import Any

import click
from click.shell_completion import get_completion_class

from holdfast.surfaces.cli.global_options import global_options
from holdfast.surfaces.cli.help.documented_command import DocumentedCommand


@click.command(
    cls=DocumentedCommand,
    examples=("holdfast admin completions bash", "holdfast admin completions zsh"),
    params=global_options(),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completions(shell: str, **_: Any) -> None:
    """Print the completion script of a shell; source it in the shell's startup file."""

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(click.get_current_context().find_root().command, {}, "holdfast", "_HOLDFAST_COMPLETE").source())
