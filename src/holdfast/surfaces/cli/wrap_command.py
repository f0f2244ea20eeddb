"""`holdfast agents wrap`: replace this process by an agent without hooks, started with the session context."""

import os
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import click

from holdfast.kernel.errors import HoldfastError, Invalid, NotFound
from holdfast.surfaces.cli.deadline import Deadline, print_hook_error
from holdfast.surfaces.cli.global_options import global_options, resolve_global_options, settings_of
from holdfast.surfaces.cli.help.documented_command import DocumentedCommand
from holdfast.surfaces.cli.help.flags import HiddenNames

PREAMBLE = "You have a persistent memory, Holdfast. Its context for this session follows."

Delivery = Literal["flag", "file", "env"]


class Strategy(NamedTuple):
    """How an agent receives its context: by a flag, in a file named by a flag, or in an environment variable."""

    delivery: Delivery
    name: str


SYSTEM = Strategy("flag", "--system")
STRATEGIES: dict[str, Strategy] = {
    "codex": SYSTEM,
    "codex-cli": SYSTEM,
    "gemini": SYSTEM,
    "claude": Strategy("flag", "--append-system-prompt"),
    "claude-cli": Strategy("flag", "--append-system-prompt"),
    "aider": Strategy("file", "--message-file"),
    "ollama": Strategy("env", "OLLAMA_SYSTEM"),
}


@click.command(
    cls=DocumentedCommand,
    examples=("holdfast agents wrap claude", "holdfast agents wrap codex -- --model o3"),
    advanced={"system_flag", "system_env", "message_file_flag"},
    params=global_options(),
    context_settings={"ignore_unknown_options": True},
)
@click.argument("agent")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]")
@click.option("--system-flag", metavar="FLAG", help="Pass the context with this flag of the agent.")
@click.option("--system-env", metavar="NAME", help="Pass the context in this environment variable.")
@click.option("--message-file-flag", metavar="FLAG", help="Pass the context in a file with this flag.")
@click.option("--no-boot", is_flag=True, help="Run the agent without context.")
@click.option(
    "--budget-tokens",
    "budget",
    "--budget",
    cls=HiddenNames,
    hidden_names=("--budget",),
    type=int,
    metavar="N",
    help="Longest context, in tokens [default: 1500].",
)
def wrap(agent: str, words: tuple[str, ...], budget: int | None, *, no_boot: bool, **given: Any) -> None:
    """Run an agent with the session-start context (exec)."""
    ways = {"flag": given["system_flag"], "env": given["system_env"], "file": given["message_file_flag"]}
    strategy, message = choose_strategy(agent, ways), ""  # type: ignore[arg-type]
    if not no_boot:
        try:
            settings = settings_of(resolve_global_options(given))
            alone = partial(exec_agent, agent, words, "", strategy)
            with Deadline("wrap", settings.hook_timeout_ms / 1000, alone):
                from holdfast.surfaces.cli.boot_context import (
                    read_boot_context,
                )  # loads the store, 60 ms: inside the deadline

                answer = read_boot_context(settings, None, None, budget)
            message = "\n".join(filter(None, (PREAMBLE, answer.manifest, answer.text)))
        except HoldfastError as error:
            print_hook_error("wrap", error)
    exec_agent(agent, words, message, strategy)


def choose_strategy(agent: str, chosen: dict[Delivery, str | None]) -> Strategy:
    """Return the chosen strategy, or the known one for the agent's program name."""
    given = [Strategy(way, name) for way, name in chosen.items() if name]
    if len(given) > 1:
        raise Invalid("--system-flag, --system-env and --message-file-flag exclude each other: use one.")
    name = os.path.basename(agent).lower().removesuffix(".exe")
    return given[0] if given else STRATEGIES.get(name, SYSTEM)


def exec_agent(agent: str, words: Sequence[str], message: str, strategy: Strategy) -> None:
    """Replace this process by the agent (exec); it has its own exit code, signals and terminal."""
    environment = dict(os.environ)
    before: list[str] = []
    if message:
        match strategy.delivery:
            case "flag":
                before = [strategy.name, message]
            case "env":
                environment[strategy.name] = message
            case "file":
                before = [strategy.name, _write_unlinked_file(message)]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(agent, [agent, *before, *words], environment)  # noqa: S606 - the user chooses the program
    except FileNotFoundError:
        raise NotFound(f"Program {agent!r} was not found: check its name and PATH.") from None
    except (OSError, ValueError) as error:
        raise Invalid(f"Cannot run {agent!r}: {error}") from None


def _write_unlinked_file(message: str) -> str:
    """Write an unlinked temporary file and return its /dev/fd path; it disappears with the process."""
    number, path = tempfile.mkstemp(prefix="holdfast-", suffix=".md")
    os.write(number, message.encode())
    os.unlink(path)
    os.lseek(number, 0, os.SEEK_SET)
    os.set_inheritable(number, True)
    return f"/dev/fd/{number}"
