"""`holdfast boot`: the session-start context of a project."""

from typing import Any

import click

from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.cli.deadline import Deadline, NonFailingCommand
from holdfast.surfaces.cli.global_options import global_options, resolve_global_options, settings_of


@click.command(cls=NonFailingCommand, params=global_options())
@click.option("--path", metavar="DIR", help="Folder of the project [default: this one].")
@click.option("-n", "--namespace", metavar="TEXT", help="Project namespace; overrides --path.")
@click.option("--budget", type=int, metavar="N", help="Longest context, in tokens [default: 1500].")
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
