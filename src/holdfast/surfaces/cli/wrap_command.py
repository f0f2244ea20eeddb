"""Agents without hooks: started with what they should know first, in place of this process."""

import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Literal, NamedTuple

from holdfast.kernel.errors import Invalid, NotFound

PREAMBLE = "You have a persistent memory, Holdfast. What it holds for this session stands below."

Way = Literal["flag", "file", "env"]


class Strategy(NamedTuple):
    """How an agent is told something before it begins: by a flag, a file that a flag names, or its environment."""

    way: Way
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


def strategy_of(agent: str, chosen: dict[Way, str | None]) -> Strategy:
    """What was chosen, else what is known of an agent by the name of its program."""
    told = [Strategy(way, name) for way, name in chosen.items() if name]
    if len(told) > 1:
        raise Invalid("Only one of --system-flag, --system-env and --message-file-flag.")
    name = os.path.basename(agent).lower().removesuffix(".exe")
    return told[0] if told else STRATEGIES.get(name, SYSTEM)


def become(agent: str, words: Sequence[str], message: str, strategy: Strategy) -> None:
    """Become the agent: its exit code, its signals and its terminal are its own, and no process is left behind."""
    environment = dict(os.environ)
    before: list[str] = []
    if message:
        match strategy.way:
            case "flag":
                before = [strategy.name, message]
            case "env":
                environment[strategy.name] = message
            case "file":
                before = [strategy.name, _unnamed(message)]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(agent, [agent, *before, *words], environment)  # noqa: S606 - which program is for the user to say
    except FileNotFoundError:
        raise NotFound(f"There is no program {agent!r} to run.") from None
    except (OSError, ValueError) as error:
        raise Invalid(f"{agent!r} cannot be run: {error}") from None


def _unnamed(message: str) -> str:
    """A file that only this process and the one it becomes have: it is gone with them, however they end."""
    number, path = tempfile.mkstemp(prefix="holdfast-", suffix=".md")
    os.write(number, message.encode())
    os.unlink(path)
    os.lseek(number, 0, os.SEEK_SET)
    os.set_inheritable(number, True)
    return f"/dev/fd/{number}"
