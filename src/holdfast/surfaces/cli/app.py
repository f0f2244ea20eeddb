"""The command line: one command per operation. Each parses, makes one call and prints."""

import os
import sys
from typing import Any

import click

from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.surfaces.cli.command_group import CommandGroup, format_everyday
from holdfast.surfaces.cli.global_options import global_options
from holdfast.surfaces.cli.output import print_error
from holdfast.version import __version__


@click.command(cls=CommandGroup, params=global_options(), context_settings={"help_option_names": ["-h", "--help"]})
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
        click.echo(error.ctx.get_help() if error.ctx and error.ctx.parent else format_everyday())
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
