"""The command line: one command per operation. Each parses, makes one call and prints."""

import os
import sys
from typing import Any

import click

from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.surfaces.cli.command_group import CommandEntry, CommandGroup
from holdfast.surfaces.cli.global_options import global_options
from holdfast.surfaces.cli.output import print_error
from holdfast.version import __version__

COMMANDS = {
    "serve": CommandEntry(
        "holdfast.surfaces.cli.serve_command",
        "serve",
        "Serve the web page, the HTTP API, and MCP at /mcp until interrupted.",
    ),
    "sync-daemon": CommandEntry(
        "holdfast.surfaces.cli.sync_daemon", "sync_daemon", "Sync with peers continuously, until interrupted."
    ),
    "mcp": CommandEntry(
        "holdfast.surfaces.cli.mcp_command", "mcp", "Serve MCP over standard input and output; agents start this."
    ),
    "worker": CommandEntry(
        "holdfast.surfaces.cli.worker", "worker", "Run due tasks by their handlers, until interrupted."
    ),
    "boot": CommandEntry(
        "holdfast.surfaces.cli.hook_command", "boot", "Print the session-start context for a project."
    ),
    "wrap": CommandEntry(
        "holdfast.surfaces.cli.wrap_command", "wrap", "Run an agent with the session-start context (exec)."
    ),
    "hook": CommandEntry("holdfast.surfaces.cli.hook_command", "hook", "Handle an agent hook event."),
    "hooks": CommandEntry(
        "holdfast.surfaces.cli.hooks_commands", "hooks", "Turn agent hooks on or off; list and test lifecycle hooks."
    ),
    "bench": CommandEntry(
        "holdfast.surfaces.cli.bench_commands",
        "bench",
        "Measure this machine: speed relative to a floor, with a table and plots.",
    ),
    "install": CommandEntry(
        "holdfast.surfaces.cli.install_commands",
        "install",
        "Connect agents to this store: preview the changes to their files, or write them.",
    ),
    "setup": CommandEntry(
        "holdfast.surfaces.cli.install_commands",
        "setup",
        "Connect the agents on this machine, asking for each, and store a first memory.",
    ),
    "completions": CommandEntry(
        "holdfast.surfaces.cli.completions_command",
        "completions",
        "Print the completion script of a shell; source it in the shell's startup file.",
    ),
}
"""Commands that are not operations, and where each is declared. The summary is the first sentence of its help."""


@click.command(
    cls=CommandGroup, index=COMMANDS, params=global_options(), context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="holdfast")
def cli(**_: Any) -> None:
    """One persistent memory for every AI agent."""


def run(words: list[str]) -> int:
    """Run a command and return its exit code. An error is printed once, as text or JSON."""
    as_json = "--json" in words
    try:
        code = cli.main(words, prog_name="holdfast", standalone_mode=False)
        if sys.stdout is not None:  # the parent process may have closed it
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        return 2
    except click.UsageError as error:
        return print_error(Invalid(error.format_message()), as_json, hint=usage(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return print_error(HoldfastError(f"Cannot write the output: {error.strerror or error}."), as_json)
    except HoldfastError as error:
        return print_error(error, as_json)
    except UnicodeEncodeError:
        return print_error(Invalid("The arguments are not valid Unicode text."), as_json)


def usage(error: click.UsageError) -> str:
    return error.ctx.get_usage() + f"\nTry '{error.ctx.command_path} --help'." if error.ctx else ""
