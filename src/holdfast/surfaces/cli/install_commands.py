"""`holdfast install` and `holdfast setup`: connect agents to a store."""

import sys
from typing import Any

import click

from holdfast.kernel.errors import ConfirmationRequired, Invalid
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.cli.global_options import global_options, resolve_global_options
from holdfast.surfaces.cli.help.documented_command import DocumentedCommand
from holdfast.surfaces.cli.output import exit_code_of, exit_with
from holdfast.surfaces.cli.run_operation import open_store
from holdfast.surfaces.install.command import connect_found, first_memory, render_answer, render_setup
from holdfast.surfaces.install.command import install as run
from holdfast.surfaces.install.targets import TARGETS


@click.command(
    cls=DocumentedCommand,
    examples=("holdfast install --detect", "holdfast install claude-code --apply"),
    params=global_options(),
)
@click.argument(
    "targets", nargs=-1, metavar="[TARGET]...", shell_complete=lambda ctx, param, prefix: complete_agents(prefix)
)
@click.option("--detect", is_flag=True, help="List the agents on this machine and their state.")
@click.option("--dry-run", is_flag=True, help="Show what would change (default).")
@click.option("--apply", is_flag=True, help="Write the changes; each file gets a backup.")
@click.option("--uninstall", is_flag=True, help="Remove Holdfast's entries only.")
@click.option("--hooks/--no-hooks", default=True, help="Install hooks for Claude Code and Codex [default: yes].")
@click.option("--config", metavar="FILE", help="Config file of the agent, if not the default one; skips hooks.")
def install(targets: tuple[str, ...], *, detect: bool, apply: bool, uninstall: bool, hooks: bool, **given: Any) -> None:
    """Connect agents to this store: preview the changes to their files, or write them.

    TARGET is claude-code, claude-desktop, codex, cursor, windsurf, continue, cline, gemini, zed, goose, opencode or
    vscode. Comments and foreign entries are kept; a file that cannot be parsed is not changed.
    """
    wanted = resolve_global_options(given)
    if apply and given["dry_run"]:
        raise Invalid("--apply and --dry-run exclude each other: use one", fields=["apply", "dry_run"])

    asked = {"detect": detect, "apply": apply, "away": uninstall, "hooks": hooks}
    answer = run(targets, db=wanted["db"], config=given["config"], **asked)
    for line in [wire.encode(answer)] if wanted["json"] else render_answer(answer):
        click.echo(line)
    exit_with(exit_code_of(answer))


def complete_agents(prefix: str) -> list[str]:

    return [name for name in TARGETS if name.startswith(prefix)]


@click.command(
    cls=DocumentedCommand, examples=("holdfast setup", "holdfast setup --yes --no-hooks"), params=global_options()
)
@click.option("--yes", is_flag=True, help="Connect every agent found, without asking.")
@click.option("--hooks/--no-hooks", default=True, help="Install hooks for Claude Code and Codex [default: yes].")
def setup(*, yes: bool, hooks: bool, **given: Any) -> None:
    """Connect the agents on this machine, asking for each, and store a first memory."""
    wanted = resolve_global_options(given)
    if not yes and (wanted["json"] or not (sys.stdin and sys.stdin.isatty())):
        raise ConfirmationRequired("Not a terminal: use --yes, or `holdfast install`.")

    def say(line: str) -> None:
        if not wanted["json"]:
            click.echo(line)

    def ask(text: str) -> bool:
        return yes or click.confirm(text, err=True)

    outcomes = connect_found(wanted["db"], hooks=hooks, yes=yes, ask=ask, say=say)
    with open_store(wanted) as hold:
        answer = first_memory(hold, outcomes)
    for line in [wire.encode(answer)] if wanted["json"] else render_setup(answer):
        click.echo(line)
    exit_with(exit_code_of(answer))
