"""Commands that are not operations, and where each is declared."""

from importlib import import_module
from typing import NamedTuple

from holdfast.surfaces.cli.help.documented_command import DocumentedCommand


class CommandEntry(NamedTuple):
    """A command that is not an operation."""

    module: str
    function: str
    summary: str
    aliases: tuple[str, ...] = ()

    def load(self) -> DocumentedCommand:
        command: DocumentedCommand = getattr(import_module(f"holdfast.surfaces.cli.{self.module}"), self.function)
        return command


COMMANDS = {
    "setup": CommandEntry(
        "install_commands", "setup", "Connect the agents on this machine, asking for each, and store a first memory."
    ),
    "install": CommandEntry(
        "install_commands",
        "install",
        "Connect agents to this store: preview the changes to their files, or write them.",
    ),
    "mcp": CommandEntry("mcp_command", "mcp", "Serve MCP over standard input and output; agents start this."),
    "serve": CommandEntry(
        "serve_command", "serve", "Serve the web page, the HTTP API, and MCP at /mcp until interrupted."
    ),
    "help": CommandEntry("help.help_command", "help_command", "Show commands by topic; --all shows every one."),
    "agents boot": CommandEntry("hook_command", "boot", "Print the session-start context for a project.", ("boot",)),
    "agents wrap": CommandEntry(
        "wrap_command", "wrap", "Run an agent with the session-start context (exec).", ("wrap",)
    ),
    "agents hook": CommandEntry("hook_command", "hook", "Handle an agent hook event.", ("hook",)),
    "agents hooks on": CommandEntry("hooks_commands", "hooks_on", "Turn agent hooks on again.", ("hooks on",)),
    "agents hooks off": CommandEntry(
        "hooks_commands", "hooks_off", "Turn agent hooks off in all sessions.", ("hooks off",)
    ),
    "agents hooks status": CommandEntry(
        "hooks_commands", "hooks_status", "Show whether agent hooks are on.", ("hooks status",)
    ),
    "task worker": CommandEntry("worker", "worker", "Run due tasks by their handlers, until interrupted.", ("worker",)),
    "sync daemon": CommandEntry(
        "sync_daemon", "sync_daemon", "Sync with peers continuously, until interrupted.", ("sync-daemon",)
    ),
    "admin bench": CommandEntry(
        "bench_commands",
        "bench",
        "Measure this machine: speed relative to a floor, with a table and plots.",
        ("bench",),
    ),
    "admin bench quality": CommandEntry(
        "bench_commands",
        "quality",
        "Measure recall quality on the questions of a LoCoMo or LongMemEval file.",
        ("bench quality",),
    ),
    "admin bench firing": CommandEntry(
        "bench_commands",
        "firing",
        "Measure how often the prompt hook adds context where it should, and where it should not.",
        ("bench firing",),
    ),
    "admin completions": CommandEntry(
        "completions_command",
        "completions",
        "Print the completion script of a shell; source it in the shell's startup file.",
        ("completions",),
    ),
}
"""The summary is the first sentence of the command's help."""
